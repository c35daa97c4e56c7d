"""What is tuned for: an operator and its types, without a shape."""

from __future__ import annotations

from dataclasses import dataclass

from moonpoly.error import UnsupportedError

_OPS = ("gemm",)
_DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Workload:
    """An operator and its dtype. Its artifact lies in a folder called :attr:`key`.

    Raises
    ------
    UnsupportedError
        If the operator or the dtype is not one that can be tuned.
    """

    op: str = "gemm"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.op not in _OPS:
            raise UnsupportedError(f"can't tune operator {self.op!r}; known: {', '.join(_OPS)}")
        if self.dtype not in _DTYPES:
            raise UnsupportedError(f"can't tune dtype {self.dtype!r}; known: {', '.join(_DTYPES)}")

    @property
    def key(self) -> str:
        """The folder name, such as ``"gemm_float32"``."""
        return f"{self.op}_{self.dtype}"

    @staticmethod
    def parse(key: str) -> Workload:
        """Return the workload of a folder name, such as ``"gemm_float32"``."""
        op, _, dtype = key.partition("_")
        return Workload(op=op, dtype=dtype)
