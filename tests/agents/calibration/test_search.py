"""The search: a resumed search ends like an uninterrupted one; journals of other searches are refused."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from optuna import Study
from optuna.storages.journal._file import LOCK_FILE_SUFFIX, JournalFileSymlinkLock

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.fit import FreeParameters
from serl.agents.calibration.search import RANGES, Trial, search


def valley(free: FreeParameters) -> tuple[float, float]:
    """Minimal at the middle of all ranges."""
    values = dataclasses.asdict(free)
    loss = sum(((values[name] - (low + high) / 2) / (high - low)) ** 2 for name, (low, high) in RANGES.items())
    return loss, loss / 2


def test_every_free_parameter_is_searched_and_starts_within_its_range() -> None:
    first = dataclasses.asdict(FreeParameters())
    assert set(first) == set(RANGES)
    assert all(low <= first[name] <= high for name, (low, high) in RANGES.items())


def test_the_first_trials_are_near_the_defaults(tmp_path: Path) -> None:
    trials: list[Trial] = []
    best = search(valley, tmp_path / "near", trials=12, seed=5, resume=False, settings={}, on_trial=trials.append)
    steps = [
        (getattr(trial.free, name) - getattr(FreeParameters(), name)) / (high - low)
        for trial in trials
        for name, (low, high) in RANGES.items()
    ]
    assert best == min(trials, key=lambda trial: trial.loss) and [one.number for one in trials] == list(range(1, 13))
    assert not any(steps[: len(RANGES)]) and 0.05 < np.std(steps) < 0.2
    assert all(low <= getattr(trial.free, name) <= high for trial in trials for name, (low, high) in RANGES.items())
    assert len({trial.free for trial in trials}) == 12
    for number, trial in enumerate(trials):
        own = steps[number * len(RANGES) : (number + 1) * len(RANGES)]
        assert trial.loss == pytest.approx(valley(trial.free)[0] + 0.01 * np.mean(np.square(own)) / 0.15**2)


@pytest.mark.long
def test_a_resumed_search_finds_the_same_best_trial(tmp_path: Path) -> None:
    uninterrupted: list[Trial] = []
    best = search(
        valley, tmp_path / "whole", trials=28, seed=5, resume=False, settings={}, on_trial=uninterrupted.append
    )
    calls = 0

    def interrupted(free: FreeParameters) -> tuple[float, float]:
        nonlocal calls
        calls += 1
        if calls == 23:
            raise KeyboardInterrupt
        return valley(free)

    parts: list[Trial] = []
    with pytest.raises(KeyboardInterrupt):
        search(interrupted, tmp_path / "parts", trials=28, seed=5, resume=False, settings={}, on_trial=parts.append)
    assert len(parts) == 22
    again = search(valley, tmp_path / "parts", trials=28, seed=5, resume=True, settings={}, on_trial=parts.append)
    assert parts == uninterrupted and again == best
    assert best.loss == min(trial.loss for trial in uninterrupted) < valley(FreeParameters())[0]
    loss, mean_l1 = valley(best.free)
    assert best.mean_l1 == mean_l1 and loss < best.loss, "beside the valley's, the distance from the defaults counts"
    assert uninterrupted[0].free == FreeParameters() and uninterrupted[0].loss == valley(FreeParameters())[0]
    # With no trials left, the best is returned all the same.
    assert search(valley, tmp_path / "parts", trials=28, seed=5, resume=True, settings={}) == best


def test_a_journal_is_neither_overwritten_nor_mixed_with_another_search(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    search(valley, journal, trials=2, seed=5, resume=False, settings={"origin": "a"})
    with pytest.raises(CalibrationError, match="expected a new file, got one with trials; continue them with --resume"):
        search(valley, journal, trials=2, seed=5, resume=False, settings={"origin": "a"})
    with pytest.raises(CalibrationError, match="origin differ"):
        search(valley, journal, trials=2, seed=5, resume=True, settings={"origin": "b"})
    with pytest.raises(CalibrationError, match="seed differ"):
        search(valley, journal, trials=2, seed=6, resume=True, settings={"origin": "a"})
    with pytest.raises(CalibrationError, match="expected the trials of a search to resume, got no file"):
        search(valley, tmp_path / "none", trials=2, seed=5, resume=True, settings={})
    with pytest.raises(CalibrationError, match="trials: expected 1 or more, got 0"):
        search(valley, tmp_path / "none", trials=0, seed=5, resume=False, settings={})


def test_a_journal_that_a_kill_has_left_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line at the end was a traceback; a lock in a folder below was waited for without end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JournalFileSymlinkLock.__init__, "__defaults__", (3,))
    journal = Path("runs") / "fitted.yaml.trials"
    journal.parent.mkdir()
    search(valley, journal, trials=2, seed=5, resume=False, settings={})
    os.truncate(journal, journal.stat().st_size - 20)
    journal.with_name(journal.name + LOCK_FILE_SUFFIX).symlink_to(journal.absolute())
    found = list[Trial]()
    search(valley, journal, trials=3, seed=5, resume=True, settings={}, on_trial=found.append)
    assert [trial.number for trial in found] == [2, 3], "the second trial was not complete"


def test_a_kill_between_the_two_steps_of_a_trial_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parameters that were written but not begun made every resumption a traceback."""
    expected, parts = list[Trial](), list[Trial]()
    search(valley, tmp_path / "whole", trials=4, seed=5, resume=False, settings={}, on_trial=expected.append)
    journal, asked = tmp_path / "journal", Study.ask
    search(valley, journal, trials=2, seed=5, resume=False, settings={}, on_trial=parts.append)

    def interrupted(study: Study) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search(valley, journal, trials=4, seed=5, resume=True, settings={})
    monkeypatch.setattr(Study, "ask", asked)
    search(valley, journal, trials=4, seed=5, resume=True, settings={}, on_trial=parts.append)
    assert parts == expected


def test_another_file_is_no_journal(tmp_path: Path) -> None:
    journal = tmp_path / "some.trials"
    for text in ("notes\n", "[1]\n", '{"some": 1}\n'):
        journal.write_text(text)
        with pytest.raises(CalibrationError, match="expected the trials of a search, got a damaged or another file"):
            search(valley, journal, trials=3, seed=5, resume=True, settings={})
        assert journal.read_text() == text
