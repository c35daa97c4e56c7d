"""Ask the selector for its plan of a problem shape, and show the plan."""

from moonpoly.planning.picture import draw_plan
from moonpoly.planning.plans import BMode, Plan, Region, gpu_kernel_set, plan
from moonpoly.planning.product import matmul, product_function

__all__ = [
    "BMode",
    "Plan",
    "Region",
    "draw_plan",
    "gpu_kernel_set",
    "matmul",
    "plan",
    "product_function",
]
