"""What became of one model under ``moonpoly bench models --check``, and whether it matches.

A model of floats matches within one bound. A model of 8-bit integers that doesn't is held to how
far ONNX Runtime is from itself, in two ways: between its two optimisation levels, and without
optimisation where only the last bits of its floats are changed (`moonpoly.benchmarks.rounding`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moonpoly.model_registry import Model, Shape

from .model_outputs import Difference
from .report import geomean
from .tolerances import MODEL_REL

# Times ONNX Runtime's time beyond which a model is marked.
ABSURD_RATIO = 5.0
# The rules, as tables and files name them.
WITHIN = f"{MODEL_REL:.0e}"
LEVELS = "levels"
ROUNDING = "rounding"


@dataclass
class Row:
    """What became of one model.

    Attributes
    ----------
    nodes
        Nodes of its graph; 0 where there is no file.
    compile_s, compile_cpu_s
        Seconds of the compilation, and of the processor in it, which don't depend on what else
        runs; not a number where it failed.
    differences
        Shape → how the outputs differ from the reference.
    spreads
        `LEVELS` or `ROUNDING` → shape → how far ONNX Runtime is from itself at worst.
    ratios
        Shape → our time over optimised ONNX Runtime's.
    reason
        Why it does not match; empty where it does.
    rule
        By which rule it matches; empty where it doesn't.
    right
        Shapes at which it matches.
    """

    model: Model
    nodes: int = 0
    compile_s: float = float("nan")
    compile_cpu_s: float = float("nan")
    differences: dict[Shape, Difference] = field(default_factory=dict)
    spreads: dict[str, dict[Shape, Difference]] = field(default_factory=dict)
    ratios: dict[Shape, float] = field(default_factory=dict)
    reason: str = ""
    rule: str = ""
    right: list[Shape] = field(default_factory=list)

    @property
    def max_error(self) -> float:
        """The largest error over the shapes, not a number where there is none."""
        return max((each.error for each in self.differences.values()), default=float("nan"))

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios, not a number where there is none."""
        return geomean(self.ratios.values())

    @property
    def worst_ratio(self) -> float:
        """The largest ratio over the shapes, not a number where there is none."""
        return max(self.ratios.values(), default=float("nan"))

    @property
    def is_absurd(self) -> bool:
        """Whether it is more than `ABSURD_RATIO` slower than ONNX Runtime over its shapes."""
        return self.ratio > ABSURD_RATIO

    def judge(self) -> None:
        """Find the strictest rule by which the model matches, or say why it does by none."""
        bounds = self._bounds()
        for rule, bound in sorted(bounds.items(), key=lambda item: item[1].error):
            faults = self._faults(bound)
            if not any(faults.values()):
                self.rule, self.reason = rule, ""
                break
            # The last is the widest, and says best what is wrong.
            self.reason = "; ".join(
                f"at {_text(s)} {fault}" for s, fault in faults.items() if fault
            )
        else:
            self.reason += "".join(
                f"; ONNX Runtime is {bound.error:.1e} from itself by {rule}"
                for rule, bound in bounds.items()
                if rule != WITHIN
            )
        self.right = [shape for shape, fault in faults.items() if not fault]

    def _bounds(self) -> dict[str, Difference]:
        """How far off the outputs may be, by each rule.

        A spread is the model's over all shapes: most inputs have no value between two integers.
        """
        bounds = {WITHIN: Difference(MODEL_REL, MODEL_REL, MODEL_REL)}
        for rule, spreads in self.spreads.items():
            worst = Difference.worst(spreads.values())
            if MODEL_REL < worst.error < math.inf:
                bounds[rule] = worst
        return bounds

    def _faults(self, bound: Difference) -> dict[Shape, str]:
        check_answer = self.model.integer
        return {
            shape: _fault(difference, bound, check_answer=check_answer)
            for shape, difference in self.differences.items()
        }

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "model": self.model.name,
            "matched": not self.reason,
            "rule": self.rule,
            "nodes": self.nodes,
            "compile_s": _rounded(self.compile_s),
            "compile_cpu_s": _rounded(self.compile_cpu_s),
            "ratio": _rounded(self.ratio),
            "worst_ratio": _rounded(self.worst_ratio),
            "shapes": [
                {
                    "shape": shape,
                    **_plain(difference),
                    **{rule: _plain(spread[shape]) for rule, spread in self.spreads.items()},
                    "ratio": _rounded(self.ratios.get(shape, float("nan"))),
                }
                for shape, difference in self.differences.items()
            ],
            "reason": self.reason,
        }


def _text(shape: Shape) -> str:
    return "x".join(map(str, shape))


def _plain(difference: Difference) -> Mapping[str, float | None]:
    values = {
        "error": difference.error,
        "answer_gap": difference.answer_gap,
        "turn": difference.turn,
    }
    return {k: _rounded(v, 9) if math.isfinite(v) else None for k, v in values.items()}


def _rounded(value: float, digits: int = 4) -> float | None:
    """As JSON has it, which knows no NaN."""
    return None if value != value else round(value, digits)


def _fault(difference: Difference, bound: Difference, *, check_answer: bool) -> str:
    """Say what is wrong with an output, or nothing."""
    if not difference.error <= bound.error:
        return f"the error is {difference.error:.1e}, at most {bound.error:.1e} expected"
    if not difference.turn <= bound.turn:
        return f"a vector is turned: cosine {1 - difference.turn:.6f} with the right one"
    # Entries that lie closer than the bound have no order of their own.
    if check_answer and not difference.answer_gap <= bound.error:
        return f"the answer is another one, {difference.answer_gap:.1e} below the right one"
    return ""
