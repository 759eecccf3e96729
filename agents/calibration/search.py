"""The search over the free parameters: the method of simulated moments, with optuna's Gaussian process.

Every complete trial is stored in a journal next to the population. A resumed search makes the same trials as an uninterrupted
one, because each trial has its own sampler, seeded by the number of complete trials before it.
"""

import dataclasses
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.fit import FreeParameters
from serl.agents.one_thread import one_thread
from serl.extras import require

RANGES: dict[str, tuple[float, float]] = {
    "noise": (0.3, 2.5),
    "noise_activity": (0.0, 2.0),
    "trend_feedback": (0.0, 3.0),
    "lean": (0.1, 3.0),
    "cancel_lean": (0.0, 1.0),
    "push": (0.0, 6.0),
    "informed": (0.0, 8.0),
    "restoring": (0.05, 2.0),
    "distance": (0.7, 1.4),
    "inside": (0.5, 1.5),
    "touch_cancels": (0.6, 2.0),
    "takes": (0.4, 2.0),
    "speed": (0.7, 1.4),
    "activity": (0.5, 2.0),
}
"""Bounds of each free parameter."""
STUDY = "calibration"
FIRST_TRIALS, FIRST_DEVIATION = 20, 0.15
"""The first trials are the defaults, and draws around them with this standard deviation, as a share of each range. Nearly all draws from whole
ranges are far worse than the defaults."""
PRIOR_WEIGHT = 0.01
"""Penalty for parameters that are on average FIRST_DEVIATION from the defaults. Among parameters that fit the training hours equally well, it
prefers those nearer to the defaults."""


@dataclasses.dataclass(frozen=True)
class Trial:
    """One set of free parameters and its loss."""

    number: int
    free: FreeParameters
    loss: float
    mean_l1: float


def import_optuna() -> Any:
    """Imports optuna. Raises MissingPackageError if it is not installed."""
    require("the search", "optuna")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def search(
    evaluate: Callable[[FreeParameters], tuple[float, float]], journal: Path, *, trials: int, seed: int, resume: bool,
    settings: dict[str, Any], on_trial: Callable[[Trial], None] = lambda trial: None,
) -> Trial:  # fmt: skip
    """Runs trials until `trials` are complete, and returns the best. Each trial is at the largest expected improvement of a Gaussian process fitted to
    all trials before it.

    evaluate: maps free parameters to (loss, mean L1). settings: everything else on which the trials depend. Raises CalibrationError if the
    journal belongs to other settings, or already exists and `resume` is not set.
    """
    optuna, torch = import_optuna(), _import_torch()
    if trials < 1:
        raise CalibrationError(f"trials: expected 1 or more, got {trials}; give more")
    ranges = {name: list(bounds) for name, bounds in RANGES.items()}
    study = _open_study(optuna, journal, resume, {**settings, "seed": seed, "ranges": ranges, "prior": PRIOR_WEIGHT})
    state = optuna.trial.TrialState
    complete = len(_trials_of(study, state.COMPLETE))
    while complete < trials:
        with warnings.catch_warnings(category=optuna.exceptions.ExperimentalWarning, action="ignore"):
            study.sampler = optuna.samplers.GPSampler(
                seed=1000 * seed + complete, n_startup_trials=FIRST_TRIALS, deterministic_objective=False
            )
        if complete < FIRST_TRIALS and not _trials_of(study, state.WAITING):  # one may be left by a kill
            study.enqueue_trial(near_defaults(complete, seed))
        with one_thread(torch, complete):
            trial = study.ask()
            free = FreeParameters(**{name: trial.suggest_float(name, *bounds) for name, bounds in RANGES.items()})
        value, mean_l1 = evaluate(free)
        value += PRIOR_WEIGHT * _distance(free)
        trial.set_user_attr("mean_l1", mean_l1)
        study.tell(trial, value)
        complete += 1
        on_trial(Trial(complete, free, value, mean_l1))
    return _best_trial(_trials_of(study, state.COMPLETE))


def _distance(free: FreeParameters) -> float:
    """Mean square of the distances from the defaults, in units of FIRST_DEVIATION of each range."""
    defaults, values = dataclasses.asdict(FreeParameters()), dataclasses.asdict(free)
    steps = [(values[name] - defaults[name]) / (FIRST_DEVIATION * (high - low)) for name, (low, high) in RANGES.items()]
    return float(np.mean(np.square(steps)))


def _import_torch() -> Any:
    """Imports PyTorch, which optuna's Gaussian process uses. Raises MissingPackageError if it or scipy is not installed."""
    require("the search", "scipy", "torch", extra="calibrate")
    import torch

    return torch


def near_defaults(number: int, seed: int) -> dict[str, float]:
    """The parameters of trial `number` among the first trials; number 0 has the defaults."""
    random = np.random.default_rng([seed, number])
    found = {}
    for name, default in dataclasses.asdict(FreeParameters()).items():
        low, high = RANGES[name]
        step = FIRST_DEVIATION * (high - low) * random.standard_normal() if number else 0.0
        found[name] = float(np.clip(default + step, low, high))
    return found


def _open_study(optuna: Any, journal: Path, resume: bool, settings: dict[str, Any]) -> Any:
    if journal.exists() and not resume:
        raise CalibrationError(
            f"{journal}: expected a new file, got one with trials; continue them with --resume, or delete it to start over"
        )
    if resume and not journal.exists():
        raise CalibrationError(f"{journal}: expected the trials of a search to resume, got no file; leave --resume out")
    try:
        if resume:
            _repair(journal)
        # absolute: optuna's lock is a link to this path, and one that a kill has left is only released if it leads to the file
        file = optuna.storages.journal.JournalFileBackend(str(journal.absolute()))
        storage = optuna.storages.JournalStorage(file)
    except OSError as error:
        raise CalibrationError(
            f"{journal}: expected a writable file, got {error.strerror}; give an output in a folder that exists"
        ) from None
    study = optuna.create_study(study_name=STUDY, storage=storage, direction="minimize", load_if_exists=True)
    known = study.user_attrs.get("about")  # the journal's name for the settings
    if known is None:
        study.set_user_attr("about", settings)
    elif known != settings:
        differing = ", ".join(name for name in settings if known.get(name) != settings[name])
        raise CalibrationError(
            f"{journal}: expected trials of this search, got those of another ({differing} differ); delete it to start over"
        )
    for trial in _trials_of(study, optuna.trial.TrialState.RUNNING):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    return study


def _repair(journal: Path) -> None:
    """Removes the part of a line that a full disk or a kill has left at the end. Raises CalibrationError for a file without trials."""
    text = journal.read_bytes()
    whole = text.rfind(b"\n") + 1
    try:
        for line in text[:whole].splitlines():
            json.loads(line)["op_code"]
    except (ValueError, KeyError, TypeError):
        raise CalibrationError(
            f"{journal}: expected the trials of a search, got a damaged or another file; delete it to start over"
        ) from None
    if whole < len(text):
        os.truncate(journal, whole)


def _trials_of(study: Any, state: Any) -> list[Any]:
    """The trials in a state of optuna."""
    return list(study.get_trials(deepcopy=False, states=(state,)))


def _best_trial(complete: list[Any]) -> Trial:
    """The complete trial with the lowest loss, the first among equals. Numbers count complete trials from 1."""
    index = min(range(len(complete)), key=lambda number: complete[number].value)
    best = complete[index]
    return Trial(index + 1, FreeParameters(**best.params), best.value, best.user_attrs["mean_l1"])
