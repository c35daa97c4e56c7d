"""The operators that one epilogue is made of, and what a product can start from.

A product may start from a tensor that is there already instead of from zero. Where the expression
adds a whole operand to the product, after nothing but other sums, that operand can become the
*addend*: what the product starts from. The epilogue reads it no more, and the result can take its
place in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm import relax

from moonpoly.compiler.passes.dims import same_shape, shape_of
from moonpoly.compiler.passes.epilogue_function import Ref, Step
from moonpoly.compiler.sites import OperandKind

_PRODUCT = -1


@dataclass
class Group:
    """The members of one epilogue, and what they read from outside."""

    anchor: relax.VarBinding
    members: list[relax.VarBinding] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    operands: list[relax.Expr] = field(default_factory=list)
    kinds: list[OperandKind] = field(default_factory=list)
    addend: relax.Expr | None = None


def truncated(group: Group, size: int) -> Group:
    """Return the group of the first ``size`` members, without the operands that it doesn't read."""
    steps = group.steps[:size]
    read = sorted({arg.index for step in steps for arg in step.args if _is_operand(arg)})  # type: ignore[union-attr]
    renumbered = {old: new for new, old in enumerate(read)}
    return Group(
        anchor=group.anchor,
        members=group.members[:size],
        steps=[
            Step(
                step.call,
                tuple(
                    Ref("operand", renumbered[arg.index]) if _is_operand(arg) else arg  # type: ignore[union-attr]
                    for arg in step.args
                ),
            )
            for step in steps
        ],
        operands=[group.operands[old] for old in read],
        kinds=[group.kinds[old] for old in read],
    )


def take_addend(
    group: Group,
    users: Mapping[relax.Var, Sequence[relax.Var]],
    positions: Mapping[relax.Var, int],
) -> None:
    """Make a residual that nobody reads after the group its addend, if it has one.

    ``users`` and ``positions`` are of the bindings of the group's dataflow block.
    """
    step = _find_addend(group.steps, group.kinds)
    operand = None if step is None else _other_operand(group.steps[step])
    if step is None or operand is None:
        return
    value = group.operands[operand]
    last = positions[group.members[-1].var]
    if not isinstance(value, relax.DataflowVar) or value not in positions:
        return
    if any(positions.get(user, last + 1) > last for user in users[value]):
        return
    # What the product itself reads can't be written over meanwhile.
    if any(value.same_as(argument) for argument in group.anchor.value.args[1].fields):
        return
    if not same_shape(shape_of(value) or [], shape_of(group.anchor.value) or []):
        return
    group.addend = group.operands.pop(operand)
    group.kinds.pop(operand)
    group.steps = _without_addend(group.steps, step)


def _is_operand(arg: Ref | float) -> bool:
    return isinstance(arg, Ref) and arg.kind == "operand"


def _find_addend(steps: Sequence[Step], kinds: Sequence[OperandKind]) -> int | None:
    """Return the position of the step that adds the addend, or None if there is none."""
    value = _PRODUCT
    while True:
        users = _users(steps, Ref("step", value))
        if len(users) != 1 or steps[users[0]].call.op.name != "relax.add":
            return None
        value = users[0]
        operand = _other_operand(steps[value])
        if operand is not None and kinds[operand] == "full":
            return value if len(_users(steps, Ref("operand", operand))) == 1 else None
        if operand is None and not any(isinstance(arg, float) for arg in steps[value].args):
            return None


def _without_addend(steps: Sequence[Step], position: int) -> list[Step]:
    """Return the steps without the one at ``position``, and without its operand's number.

    The steps that read its result read the sum that it added to.
    """
    removed = steps[position]
    operand = _other_operand(removed)
    (value,) = (arg for arg in removed.args if isinstance(arg, Ref) and arg.kind == "step")

    def renumbered(arg: Ref | float) -> Ref | float:
        if not isinstance(arg, Ref):
            return arg
        if arg.kind == "operand":
            return Ref("operand", arg.index - (operand is not None and arg.index > operand))
        if arg.index == position:
            return value
        return Ref("step", arg.index - (arg.index > position))

    return [
        Step(step.call, tuple(map(renumbered, step.args))) for step in steps if step is not removed
    ]


def _other_operand(step: Step) -> int | None:
    """Return the extra operand that a step of two arguments reads, or None if it reads none."""
    for arg in step.args:
        if isinstance(arg, Ref) and arg.kind == "operand":
            return arg.index
    return None


def _users(steps: Sequence[Step], value: Ref) -> list[int]:
    """Return the positions of the steps that read ``value``, once for each time they do."""
    return [position for position, step in enumerate(steps) for arg in step.args if arg == value]
