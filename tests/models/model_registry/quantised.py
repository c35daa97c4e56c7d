"""Files that ONNX Runtime's own quantiser makes of another model of the registry."""

from __future__ import annotations

import hashlib
import importlib.metadata
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from moonpoly import config

from .packages import ModelFileError
from .specification import Arrays, Model, Shape

_SEED = 20


@dataclass(frozen=True)
class Quantised:
    """A model with weights of 8 bits, quantised on the spot: the same file each time.

    Attributes
    ----------
    model
        What is quantised.
    form
        ``dynamic`` (scales of activations are found at run time), ``qdq`` (QuantizeLinear and
        DequantizeLinear around float operators) or ``qoperator`` (QLinearMatMul and the like).
    per_channel
        Whether each column of a weight has a scale of its own.
    samples
        Shapes of the random inputs that a static form takes its scales from.
    """

    model: Model
    form: str
    per_channel: bool = False
    samples: Sequence[Shape] = field(default=())

    def path(self) -> Path:
        """Give the file; it stays in the user's cache until this module or the quantiser change."""
        name = f"{self.model.name}-{self.form}{'-channels' * self.per_channel}.onnx"
        folder = config.cache_dir() / "models" / f"quantised-{self._digest()}"
        path = folder / name
        if path.is_file():
            return path
        source = self.model.path()
        folder.mkdir(parents=True, exist_ok=True)
        with config.atomic_file(path) as temporary:
            try:
                self._quantise(source, temporary)
            except (ImportError, RuntimeError, TypeError, ValueError) as err:
                raise ModelFileError(f"{name} can't be made of {source}: {err}") from err
        return path

    def _digest(self) -> str:
        """Name what makes the file: one that another state made is not taken for a new one."""
        sha = hashlib.sha256(Path(__file__).read_bytes())
        made_by = [f"{package} {_version(package)}" for package in ("onnx", "onnxruntime", "numpy")]
        sha.update(f"{made_by} {self.model.source} {self.samples}".encode())
        return sha.hexdigest()[:12]

    def _quantise(self, source: Path, target: Path) -> None:
        from onnxruntime import quantization as q

        quiet = logging.getLogger()
        level = quiet.level
        # It warns by the root logger that a model has not been optimised beforehand.
        quiet.setLevel(logging.ERROR)
        try:
            if self.form == "dynamic":
                q.quantize_dynamic(source, target, per_channel=self.per_channel)
                return
            form = q.QuantFormat.QDQ if self.form == "qdq" else q.QuantFormat.QOperator
            q.quantize_static(
                source,
                target,
                _Calibration(self.model, self.samples),
                quant_format=form,
                per_channel=self.per_channel,
                activation_type=q.QuantType.QUInt8,
            )
        finally:
            quiet.setLevel(level)


class _Calibration:
    """Random inputs, one after the other, as the quantiser asks for them."""

    def __init__(self, model: Model, samples: Sequence[Shape]) -> None:
        rng = np.random.default_rng(_SEED)
        self._inputs: Iterator[Arrays] = iter([model.inputs(shape, rng) for shape in samples])

    def get_next(self) -> Arrays | None:
        """Return the next inputs by name, or None after the last."""
        return next(self._inputs, None)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as err:
        raise ModelFileError(f"quantising models needs {package}, which is not installed") from err
