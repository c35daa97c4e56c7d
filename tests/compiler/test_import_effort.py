"""What an import costs grows with the number of nodes, and no faster.

Simplifying and proving expressions of dimensions is where its time goes; these are counted.
"""

from __future__ import annotations

import numpy as np
import pytest
from graphs import graph

from moonpoly.compiler.frontend import import_model
from moonpoly.compiler.frontend.symbolic import Symbols
from moonpoly.compiler.frontend.walk.walk import GraphWalk

# Attention's reshapes as exporters write them: every size is taken out of a shape and put together
# again, some through arithmetic that must cancel.
_BLOCK = """
    shape{i} = Shape({x}) n{i} = Gather(shape{i}, zero) t{i} = Gather(shape{i}, one)
    half{i} = Div(t{i}, two) even{i} = Mul(half{i}, two) odd{i} = Sub(t{i}, even{i})
    again{i} = Add(even{i}, odd{i})
    rows{i} = Unsqueeze(n{i}, first) steps{i} = Unsqueeze(again{i}, first)
    apart{i} = Concat<axis=0>(rows{i}, steps{i}, heads)
    y{i} = Reshape({x}, apart{i}) p{i} = Transpose<perm=[0,2,1,3]>(y{i})
    s{i} = Softmax<axis=-1>(p{i}) o{i} = Transpose<perm=[0,2,1,3]>(s{i})
    joined{i} = Concat<axis=0>(rows{i}, steps{i}, width) z{i} = Reshape(o{i}, joined{i})
    a{i} = Add({x}, z{i})
"""
NODES_PER_BLOCK = 17
_INTEGERS = {
    "zero": np.array(0),
    "one": np.array(1),
    "two": np.array(2),
    "first": np.array([0]),
    "heads": np.array([4, 6]),
    "width": np.array([24]),
}


def chain(blocks: int):
    """Return a model of that many blocks, each with its own way to the same sizes."""
    names = ["x", *(f"a{i}" for i in range(blocks))]
    text = "".join(_BLOCK.format(i=i, x=names[i]) for i in range(blocks))
    return graph(f"g (float[n,t,24] x) => (float[n,t,24] {names[-1]}) {{ {text} }}", **_INTEGERS)


@pytest.fixture
def counts(monkeypatch):
    """How often each of the costly steps was taken."""
    found: dict[str, int] = {}

    def count(owner, name):
        original = getattr(owner, name)

        def counted(*args, **kwargs):
            found[name] = found.get(name, 0) + 1
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    for name in ("simplify", "_prove", "proves"):
        count(Symbols, name)
    count(GraphWalk, "run")
    return found


def test_a_model_twice_as_long_takes_twice_the_steps(counts):
    taken = []
    for blocks in (20, 40):
        model = chain(blocks)
        assert len(model.graph.node) == blocks * NODES_PER_BLOCK
        counts.clear()
        import_model(model)
        taken.append(dict(counts))
    short, long = taken
    assert short["run"] == long["run"] == 1
    for name in ("simplify", "proves"):
        assert long[name] <= 2 * short[name] + 20, name
        assert short[name] <= 10 * 20 * NODES_PER_BLOCK, name
    # The same is asked again and again; it is proven once.
    assert long["_prove"] <= short["_prove"] + 5


def test_dimensions_that_are_learned_equal_take_no_walk_each(counts):
    names = [f"x{i}" for i in range(24)]
    inputs = ", ".join(f"float[n{i},2] {name}" for i, name in enumerate(names))
    model = graph(f"g ({inputs}) => (float[n0,48] y) {{ y = Concat<axis=1>({', '.join(names)}) }}")
    imported = import_model(model)
    assert len(imported.conditions.equal) == len(names) - 1
    assert counts["run"] <= 3
