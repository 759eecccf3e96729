"""Adapters: what a model has learnt in a run, as a file from which another run of the same model can start."""

from pathlib import Path
from typing import Any

from serl.agents.learning import files
from serl.researcher.tuning.config import LAYERS_BEFORE
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.tuner import Tuner

KIND = "adapter"
_SHAPE = ("rank", "alpha", "targets", "layers", "norms")
_BEFORE = {"layers": LAYERS_BEFORE}
"""Settings of adapters whose file does not contain them."""


def save_adapter(tuner: Tuner, path: Path, facts: dict[str, Any]) -> None:
    """Write the adapter with its model's hash and `facts`, such as runs, data and number of candidates, atomically."""
    metadata = {
        "model": tuner.base.path.name, "model_sha256": tuner.base.sha256, "shape": _shape(tuner), "updates": tuner.step,
        "methods": tuner.config.methods, "facts": facts,
    }  # fmt: skip
    files.write(path, KIND, {name: tensor.detach() for name, tensor in tuner.trained().items()}, metadata)


def start_from(tuner: Tuner, path: Path) -> dict[str, Any]:
    """Give the tuner the weights of an adapter and return the adapter's metadata. TuningError if the adapter is for another model or shape;
    PolicyFileError if the file is not an adapter."""
    tensors, metadata = files.read(path, KIND)
    if metadata["model_sha256"] != tuner.base.sha256:
        raise TuningError(
            f"{path}: expected an adapter of the model {tuner.base.path.name} ({tuner.base.sha256[:12]}), got one of "
            f"{metadata['model']} ({metadata['model_sha256'][:12]}); use that model, or start without the adapter"
        )
    shape = _BEFORE | metadata["shape"]
    if shape != _shape(tuner):
        raise TuningError(f"{path}: expected {_shape(tuner)}, got {shape}; use the same settings in low_level.tuning")
    tuner.start_from(tensors)
    return metadata


def _shape(tuner: Tuner) -> dict[str, Any]:
    """The settings that determine the tensors of an adapter and their meaning."""
    values: dict[str, Any] = tuner.config.model_dump(mode="json", include=set(_SHAPE))
    return values
