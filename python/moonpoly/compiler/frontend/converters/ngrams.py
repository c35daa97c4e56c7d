"""TfIdfVectorizer: how often each of a list of n-grams occurs in rows of words, weighted."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from moonpoly.compiler.frontend.converters.packed_call import call_packed
from moonpoly.compiler.frontend.converters.registry import converts
from moonpoly.compiler.frontend.converters.sizes import known_shape
from moonpoly.compiler.frontend.graph.context import Context


@converts("TfIdfVectorizer")
def tf_idf(ctx: Context) -> relax.Expr:
    """Count n-grams of integers, and weigh the counts as the mode says."""
    if "pool_strings" in ctx.attrs:
        ctx.unsupported("its words are strings; integers are supported")
    shape, mode = known_shape(ctx, 0), ctx.attrs["mode"]
    if len(shape) not in (1, 2):
        ctx.unsupported(f"its input has rank {len(shape)}, expected 1 or 2")
    if mode not in ("TF", "IDF", "TFIDF"):
        ctx.unsupported(f"its mode is {mode!r}; 'TF', 'IDF' and 'TFIDF' are known")
    columns = np.asarray(ctx.attrs["ngram_indexes"], np.int64)
    width = int(columns.max(initial=-1)) + 1
    words = ctx.emit(relax.op.astype(ctx.input(0), "int64"))
    args: list[Any] = [words, int(ctx.attrs["max_skip_count"]), width, *_pools(ctx, columns)]
    wanted = [*shape[:-1], width]
    (counts,) = call_packed(ctx, "moonpoly.op.count_ngrams", args, [wanted], ["float32"])
    if mode != "TF" and "weights" in ctx.attrs:
        weights = np.zeros(width, np.float32)
        weights[columns] = ctx.attrs["weights"]
        scale = relax.const(weights, "float32")
    else:
        scale = None
    if mode == "IDF":
        counts = ctx.emit(relax.op.minimum(counts, relax.const(1.0, "float32")))
    return counts if scale is None else ctx.emit(relax.op.multiply(counts, scale))


def _pools(ctx: Context, columns: np.ndarray) -> list[relax.Expr]:
    """Return the n-grams of each length that counts, in ascending order, and their columns."""
    pool = np.asarray(ctx.attrs["pool_int64s"], np.int64)
    starts = [*ctx.attrs["ngram_counts"], len(pool)]
    shortest, longest = (int(ctx.attrs[f"{end}_gram_length"]) for end in ("min", "max"))
    tensors: list[relax.Expr] = []
    first = 0
    for length in range(1, len(starts)):
        grams = pool[starts[length - 1] : starts[length]]
        if grams.size % length:
            ctx.unsupported(f"{grams.size} words are no whole number of {length}-grams")
        grams = grams.reshape(-1, length)
        own = columns[first : first + len(grams)]
        first += len(grams)
        if not shortest <= length <= longest or not len(grams):
            continue
        # Of equal n-grams the first one counts.
        ordered, places = np.unique(grams, axis=0, return_index=True)
        tensors += [relax.const(ordered, "int64"), relax.const(own[places], "int64")]
    return tensors
