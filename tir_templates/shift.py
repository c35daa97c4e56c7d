"""Words that begin within a word."""

from __future__ import annotations

from tvm.script import tirx as T

_SHIFT = """__forceinline__ __device__ unsigned shift_words(unsigned low, unsigned high, int bits) {
  return __funnelshift_r(low, high, bits);
}
"""


def shift_words(low, high, bits):
    """Return the word that begins so many bits, below 32, after the start of ``low``."""
    return T.cuda.func_call(
        "shift_words", low, high, bits, source_code=_SHIFT, return_type="uint32"
    )
