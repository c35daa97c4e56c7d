"""The machines that MoonPoly builds for, and which of them this host is."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from moonpoly import config, gpu_driver
from moonpoly.error import TargetError

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True)
class Target:
    """One kind of machine.

    Parameters
    ----------
    name
        The name artifacts are kept under, such as ``"x86-avx512"``.
    kind
        TVM's target kind.
    arch
        The processor level, or GPU architecture, that code is generated for.
    features
        What a machine must have, in the spelling of the operating system's flags; of a GPU its
        compute capability.
    vector_lanes
        Elements in one vector register, for each dtype that can be tuned for.
    num_pes
        Processing units (cores of a CPU, multiprocessors of a GPU) that a plan is made for.
    """

    name: str
    kind: str
    arch: str
    features: tuple[str, ...]
    vector_lanes: Mapping[str, int] = field(hash=False)
    num_pes: int = 1

    @staticmethod
    def parse(text: str) -> Target:
        """Return the target called ``text``: a name, or ``"host"`` for the best of this machine.

        Raises
        ------
        TargetError
            If there is no such target.
        """
        if text == "host":
            return host_target()
        for target in _TARGETS:
            if target.name == text:
                return target if target.is_gpu else target.with_num_pes(config.num_threads())
        raise TargetError(f"unknown target {text!r}; known: {', '.join(target_names())}, host")

    @property
    def is_gpu(self) -> bool:
        """Whether code for this target runs on a GPU."""
        return self.kind == "cuda"

    def with_num_pes(self, num_pes: int) -> Target:
        """Return the same target with another number of processing units."""
        return replace(self, num_pes=num_pes)

    def missing_features(self) -> tuple[str, ...]:
        """Return the features that this target needs and this machine lacks."""
        present = gpu_features() if self.is_gpu else host_features()
        return tuple(name for name in self.features if name not in present)

    def require_host(self) -> None:
        """Check that code for this target runs on this machine.

        Raises
        ------
        TargetError
            Naming the features that are missing.
        """
        if missing := self.missing_features():
            raise TargetError(
                f"target {self.name} needs {', '.join(missing)}, which this machine lacks; "
                f"run on a machine that has it, or choose another target"
            )

    def tvm_target(self) -> tvm.target.Target:
        """Return TVM's description of this target."""
        import tvm

        if self.is_gpu:
            return tvm.target.Target({"kind": self.kind, "arch": self.arch})
        return tvm.target.Target({"kind": self.kind, "mcpu": self.arch, "num-cores": self.num_pes})

    def to_dict(self) -> dict[str, object]:
        """Return what a manifest records of the target."""
        return {
            "name": self.name,
            "features": list(self.features),
            "vector_lanes": dict(self.vector_lanes),
            "num_pes": self.num_pes,
        }


# The best comes first: the host gets the first that it can run.
_TARGETS = (
    Target(
        name="x86-avx512",
        kind="llvm",
        arch="x86-64-v4",
        features=("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512dq"),
        vector_lanes=MappingProxyType({"float32": 16, "float64": 8}),
    ),
    Target(
        name="x86-avx2",
        kind="llvm",
        arch="x86-64-v3",
        features=("avx2", "fma"),
        vector_lanes=MappingProxyType({"float32": 8, "float64": 4}),
    ),
    # H100 and H200. A lane of a tensor core's operand is one item of 16 bytes of a row.
    Target(
        name="cuda-sm90a",
        kind="cuda",
        arch="sm_90a",
        features=("sm_90",),
        vector_lanes=MappingProxyType(
            {"float16": 8, "bfloat16": 8, "tf32": 4, "float8_e4m3fn": 16, "int8": 16}
        ),
        num_pes=132,
    ),
    # A100.
    Target(
        name="cuda-sm80",
        kind="cuda",
        arch="sm_80",
        features=("sm_80",),
        vector_lanes=MappingProxyType({"float16": 8, "bfloat16": 8, "tf32": 4, "int8": 16}),
        num_pes=108,
    ),
)


def target_names(kind: str | None = None) -> tuple[str, ...]:
    """Return the names of all targets, or of those of one TVM kind, the most capable first."""
    return tuple(target.name for target in _TARGETS if kind in (None, target.kind))


def host_target() -> Target:
    """Return the most capable target that this machine's processor can run.

    Raises
    ------
    TargetError
        If it can run none.
    """
    for target in _TARGETS:
        if not target.is_gpu and not target.missing_features():
            return target.with_num_pes(config.num_threads())
    raise TargetError(
        f"no target for this machine ({platform.machine()}): x86-64 with AVX2 and FMA is needed; "
        f"found {', '.join(sorted(host_features())) or 'no vector features'}"
    )


@cache
def gpu_features() -> frozenset[str]:
    """Return what the first GPU is: its compute capability, such as ``sm_90``; nothing without."""
    found = gpu_driver.capability()
    return frozenset() if found is None else frozenset({f"sm_{found}"})


@cache
def host_features() -> frozenset[str]:
    """Return the processor's vector features, as the operating system names them.

    The features decide, not the model's name: a hypervisor may mask what a name promises, and the
    operating system must save the wide registers as well.
    """
    known = {name for target in _TARGETS if not target.is_gpu for name in target.features}
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError as err:
        raise TargetError(f"can't read this machine's features: {err}; Linux is needed") from err
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(known.intersection(value.split()))
    return frozenset()
