"""Reads the file of a forecaster and validates its content."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.signals.attention import Attention, shapes
from serl.agents.signals.books import CHANNELS, WINDOW
from serl.agents.signals.errors import SignalError
from serl.agents.signals.features import NAMES
from serl.agents.signals.fill import FillModel
from serl.agents.signals.forecaster import FORMAT, MODELS, NO_SIZES, VERSION, Forecaster, Training, check_horizons
from serl.agents.signals.grid import STEP_S, Floats
from serl.agents.signals.labels import CLASSES
from serl.agents.signals.volume import VolumeModel

FILE_BYTES_MAX = 10_000_000


def read_forecaster(path: Path) -> Forecaster:
    """Reads a forecaster. Raises SignalError for a file that `serl signals train` of this version did not write."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ValueError(f"more than {FILE_BYTES_MAX:,} bytes")
        values = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict) or (values.get("format"), values.get("version")) != (FORMAT, VERSION):
            raise ValueError("another format or version")
        if values["features"] != list(NAMES) or values["step_s"] != STEP_S:
            raise ValueError("other features")
        if values["channels"] != list(CHANNELS) or values["window"] != WINDOW:
            raise ValueError("other books")
        return _checked(values)
    except UnicodeDecodeError:
        raise SignalError(
            f"{path}: expected a forecaster, got a file that is no text; write one with `serl signals train`"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SignalError(
            f"{path}: expected a forecaster, got {str(error)[:150]!r}; write one with `serl signals train`"
        ) from None


def _checked(values: dict[str, Any]) -> Forecaster:
    horizons = check_horizons(values["horizons_s"])
    h, f = len(horizons), len(NAMES)
    layers = [(_array(weights, (None, None)), _array(intercepts, (None,))) for weights, intercepts in values["layers"]]
    sizes = [f, *(len(intercepts) for _, intercepts in layers)]
    if sizes[-1] != h * CLASSES or [w.shape for w, _ in layers] != list(pairwise(sizes)):
        raise ValueError("layers that do not fit together")
    temperatures = {name: _positive(values["temperatures"][name], (h,)) for name in MODELS}
    if values["model"] not in MODELS:
        raise ValueError(f"the model {values['model']}")
    return Forecaster(
        str(values["symbol"]), horizons, _array(values["thresholds_ticks"], (h,)), _array(values["centre"], (f,)),
        _positive(values["scale"], (f,)), _array(values["shares"], (h, CLASSES)), _array(values["after"], (h, CLASSES, CLASSES)),
        _array(values["weights"], (h, f + 1, CLASSES)), layers, _attention(values["attention"], h), temperatures, values["model"],
        _volume(values["volume"], h, f), _fill(values["fill"], h, f), _training(values["training"]),
    )  # fmt: skip


def _attention(values: dict[str, Any], h: int) -> Attention:
    weights = {name: _array(values["weights"][name], shape).astype(np.float32) for name, shape in shapes(h).items()}
    c = len(CHANNELS)
    return Attention(_array(values["centre"], (c,)), _positive(values["scale"], (c,)), weights)


def _volume(values: dict[str, Any], h: int, f: int) -> VolumeModel:
    return VolumeModel(
        _positive(values["means"], (h,)), _array(values["lines"], (h, 2)), _array(values["weights"], (h, f + 1))
    )


def _fill(values: dict[str, Any], h: int, f: int) -> FillModel:
    return FillModel(
        _array(values["shares"], (h,)), _array(values["after"], (h, 2)), _array(values["centre"], (f,)),
        _positive(values["scale"], (f,)), _array(values["weights"], (h, f + 1)), _positive(values["temperatures"], (h,)),
    )  # fmt: skip


def _training(values: dict[str, Any]) -> Training:
    (start, end), (fitted, calibrated) = values["hours"], values["samples"]
    return Training(
        (int(start), int(end)), tuple(map(str, values["days"])), int(values["seed"]), (int(fitted), int(calibrated)),
        {name: float(values["log_loss"][name]) for name in MODELS}, list(values["scores"]),
        tuple(map(str, values["dates"])), _sizes(values.get("sizes", NO_SIZES)),
    )  # fmt: skip


def _sizes(values: Sequence[Any]) -> tuple[str, str]:
    tick_size, lot_size = map(str, values)
    if (tick_size, lot_size) != NO_SIZES and not min(float(tick_size), float(lot_size)) > 0:
        raise ValueError(f"the sizes {values}")
    return tick_size, lot_size


def _array(values: Any, shape: Sequence[int | None]) -> Floats:
    found = np.array(values, np.float64)
    if found.ndim != len(shape) or any(
        wanted not in (None, size) for wanted, size in zip(shape, found.shape, strict=True)
    ):
        raise ValueError(f"numbers of the shape {found.shape} instead of {tuple(shape)}")
    if not np.isfinite(found).all():
        raise ValueError("numbers that are not finite")
    return found


def _positive(values: Any, shape: Sequence[int | None]) -> Floats:
    found = _array(values, shape)
    if not (found > 0).all():
        raise ValueError("a scale, mean or temperature that is not positive")
    return found
