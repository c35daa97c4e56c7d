"""oneDNN through torch: the pre-packed linear and plain ``torch.mm(out=)``; the faster counts."""

from __future__ import annotations

import torch

from . import CONSTANT, DYNAMIC, MODES, Matrix, Way


class OneDnn:
    """torch's CPU matrix products.

    ``mkldnn._linear_pointwise`` is what torch's own compiler emits; it reaches oneDNN with a weight
    that is reordered beforehand (constant B) or taken as it is (dynamic B), and allocates its
    output. ``mm(out=)`` goes to the BLAS that torch was built with.
    """

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._threads = threads

    def facts(self) -> dict[str, str]:
        build = torch.__config__.show()
        lines = [line.strip(" -") for line in build.splitlines()]
        mkldnn = next((line for line in lines if "MKL-DNN" in line), "no oneDNN")
        mkldnn = mkldnn.replace("Intel(R) ", "")
        return {
            "version": f"torch {torch.__version__}, {mkldnn.partition(' (')[0]}",
            "kernels": torch.backends.cpu.get_cpu_capability(),
            "threads": str(self._threads),
        }

    def ways(self, a: Matrix, b: Matrix, c: Matrix) -> list[Way]:
        ta, tb, tc = torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(c)
        linear = torch.ops.mkldnn._linear_pointwise.default
        packed = torch.ops.mkldnn._reorder_linear_weight(tb.t().contiguous(), a.shape[0])
        plain = tb.t()
        mm = torch.mm
        return [
            Way("mm", MODES, lambda: mm(ta, tb, out=tc), lambda _: c),
            Way(
                "linear_packed",
                (CONSTANT,),
                lambda: linear(ta, packed, None, "none", [], ""),
                lambda output: output.numpy(),
            ),
            Way(
                "linear",
                (DYNAMIC,),
                lambda: linear(ta, plain, None, "none", [], ""),
                lambda output: output.numpy(),
            ),
        ]


def create(threads: int) -> OneDnn:
    """Create the contender."""
    return OneDnn(threads)
