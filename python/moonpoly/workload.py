"""What is tuned for: an operator and its types, without a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from moonpoly.error import UnsupportedError

_OPS = ("gemm",)

# What C may be for each type of A and B, the usual one first. "tf32" is float32 in memory, of
# which the tensor cores read 19 bits.
OUTPUTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "float32": ("float32",),
        "float16": ("float16", "bfloat16", "float32"),
        "bfloat16": ("bfloat16", "float16", "float32"),
        "tf32": ("float32",),
        "float8_e4m3fn": ("bfloat16", "float16", "float32"),
        "int8": ("int32",),
    }
)
_TO = "_to_"
# Types that the same micro-kernels take as long for.
_LIKE = {"bfloat16": "float16"}


@dataclass(frozen=True)
class Workload:
    """An operator and its types. Its artifact lies in a folder called :attr:`key`.

    Parameters
    ----------
    op
        The operator.
    dtype
        Of A and B.
    out_dtype
        Of C; the usual one of ``dtype`` if empty.

    Raises
    ------
    UnsupportedError
        If the operator or a dtype is not one that can be tuned.
    """

    op: str = "gemm"
    dtype: str = "float32"
    out_dtype: str = ""

    def __post_init__(self) -> None:
        if self.op not in _OPS:
            raise UnsupportedError(f"can't tune operator {self.op!r}; known: {', '.join(_OPS)}")
        if self.dtype not in OUTPUTS:
            raise UnsupportedError(f"can't tune dtype {self.dtype!r}; known: {', '.join(OUTPUTS)}")
        outputs = OUTPUTS[self.dtype]
        if not self.out_dtype:
            object.__setattr__(self, "out_dtype", outputs[0])
        if self.out_dtype not in outputs:
            raise UnsupportedError(
                f"a product of {self.dtype} is {' or '.join(outputs)}, not {self.out_dtype}"
            )

    @property
    def key(self) -> str:
        """The folder name, such as ``"gemm_float32"``; it names an unusual output."""
        usual = self.out_dtype == OUTPUTS[self.dtype][0]
        return f"{self.op}_{self.dtype}{'' if usual else _TO + self.out_dtype}"

    @property
    def likes(self) -> tuple[Workload, ...]:
        """Workloads whose micro-kernels, but for types, and costs serve this one as well.

        The nearest comes first. Another output costs its bytes only, which plans count.
        """
        usual = Workload(self.op, self.dtype)
        found: tuple[Workload, ...] = () if usual == self else (usual,)
        if self.dtype in _LIKE:
            found += (Workload(self.op, _LIKE[self.dtype]),)
        return found

    @staticmethod
    def parse(key: str) -> Workload:
        """Return the workload of a folder name, such as ``"gemm_float32"``."""
        op, _, types = key.partition("_")
        dtype, _, out_dtype = types.partition(_TO)
        return Workload(op, dtype, out_dtype)
