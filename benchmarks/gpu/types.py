"""The element types of a product as the benchmarks need them: torch's, sizes, and what is exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moonpoly.tir_templates.items import ALIGNED_BYTES, ITEMS, OUTPUT_BYTES

from ..shape_lists import Problem
from ..tolerances import OPERATOR_REL_8BIT_FLOAT, OPERATOR_REL_16BIT

# Half a unit in the last place, and what that is below the smallest normal number.
_ROUNDING = {
    "float16": (2.0**-11, 2.0**-25),
    "bfloat16": (2.0**-8, 0.0),
    "float32": (2.0**-24, 0.0),
    "int32": (0.0, 0.0),
}


@dataclass(frozen=True)
class Types:
    """What A and B hold, and what C."""

    dtype: str = "float16"
    out_dtype: str = "float16"

    @staticmethod
    def of(manifest: dict[str, Any]) -> Types:
        """Return the types of a kernel set."""
        return Types(manifest["dtype"], manifest["out_dtype"])

    @property
    def item_bytes(self) -> int:
        """Bytes of an item of A and B."""
        return ITEMS[self.dtype].bytes

    @property
    def out_bytes(self) -> int:
        """Bytes of an item of C."""
        return OUTPUT_BYTES[self.out_dtype]

    @property
    def aligned_items(self) -> int:
        """Items of 16 bytes of A and B."""
        return ITEMS[self.dtype].aligned

    @property
    def aligned_outputs(self) -> int:
        """Items of 16 bytes of C."""
        return ALIGNED_BYTES // self.out_bytes

    @property
    def torch_item(self) -> str:
        """Torch's name of the type of A and B."""
        return "float32" if self.dtype == "tf32" else self.dtype

    @property
    def exact(self) -> bool:
        """Whether products are exact: those of integers."""
        return self.dtype == "int8"

    @property
    def operator_rel(self) -> float:
        """Bound of the error beyond rounding, relative to |A|·|B|."""
        if self.exact:
            return 0.0
        return OPERATOR_REL_8BIT_FLOAT if self.item_bytes == 1 else OPERATOR_REL_16BIT

    @property
    def rounding(self) -> tuple[float, float]:
        """Half a unit in the last place of C, relative, and the least that it is."""
        return _ROUNDING[self.out_dtype]

    @property
    def poison(self) -> float:
        """What C holds before a product: NaN, or of integers what no sum here is."""
        return -(2**31) if self.exact else float("nan")

    def has_peer(self, problem: Problem) -> bool:
        """Whether torch has a product of these types for a shape: not for every one of 8 bits."""
        if self.dtype == "int8":
            return problem.m > 16 and problem.n % 8 == 0 and problem.k % 8 == 0
        if self.item_bytes == 1:
            return problem.n % 16 == 0 and problem.k % 16 == 0
        return True

    def empty(self, count: int, *, output: bool = False) -> Any:
        """Return room for items on the GPU."""
        import torch

        name = self.out_dtype if output else self.torch_item
        return torch.empty(count, dtype=getattr(torch, name), device="cuda")

    def fill(self, data: Any, generator: Any) -> None:
        """Fill with random values between -1 and 1 (integers: all) that the tensor cores read."""
        import torch

        if self.dtype == "int8":
            data.random_(-128, 128, generator=generator)
        elif self.item_bytes == 1:
            values = torch.empty(data.shape, dtype=torch.float16, device="cuda")
            data.copy_(values.uniform_(-1, 1, generator=generator))
        else:
            data.uniform_(-1, 1, generator=generator)
        if self.dtype == "tf32":
            # Rounded already: what any rounding to tf32 leaves as it is.
            data.view(torch.int32).bitwise_and_(-8192)


def multiplier(types: Types) -> Any:
    """Return torch's function (a, b, c) for products of these types, and set torch up for it.

    Raises
    ------
    ValueError
        If torch has none.
    """
    import torch

    if types.dtype == "int8":
        return lambda a, b, c: torch._int_mm(a, b, out=c)
    if types.item_bytes == 1:
        one = torch.ones((), device="cuda")
        out = getattr(torch, types.out_dtype)
        # Sums as the tensor cores make them, as ours are.
        return lambda a, b, c: torch._scaled_mm(
            a, b, scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=True, out=c
        )
    if types.dtype == "tf32":
        torch.backends.cuda.matmul.allow_tf32 = True
    elif types.out_dtype != types.dtype:
        if types.out_dtype == "float32":
            return lambda a, b, c: torch.mm(a, b, out_dtype=torch.float32, out=c)
        raise ValueError(f"torch multiplies {types.dtype} to itself or float32 only")
    return lambda a, b, c: torch.mm(a, b, out=c)
