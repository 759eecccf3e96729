"""Validity checks on responses whose law is known."""

from dataclasses import replace

import numpy as np
import pytest

from serl.agents.impact.responses import (
    FACTORS,
    STEPS,
    TIME,
    Responses,
    Trial,
    check_settings,
    collect_responses,
    plan_trials,
)
from serl.agents.impact.validity import FAILS, HOLDS, UNKNOWN, Check, check_validity
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import Floats

SHARES = np.array([0.01, 0.03, 0.1, 0.3])


def responses(
    delta: float = 0.5, *, plateau: float = 2 / 3, in_time: float = 0.5, by_duration: float = 0.0,
    sell_factor: float = 1.0, noise: float = 0.1, runs: int = 40,
) -> Responses:  # fmt: skip
    """I = 100 Q^delta (t / T)^in_time, then an exponential decay to the plateau, and noise that is common to a run."""
    random = np.random.default_rng(3)
    shape = np.where(TIME <= 1, TIME**in_time, plateau + (1 - plateau) * np.exp(-3 * np.maximum(TIME - 1, 0)))
    sides = np.array([1.0, sell_factor])[:, np.newaxis, np.newaxis]
    impact = 100 * sides * SHARES[:, np.newaxis] ** delta * shape
    impact = impact + noise * random.normal(size=(runs, 2, len(SHARES), 1)) * (TIME > 0)
    longer = 100 * sides[:, 0] * SHARES[-2] ** delta * np.array(FACTORS) ** by_duration
    durations = longer + noise * random.normal(size=(runs, 2, len(FACTORS)))
    return Responses("made", "seeds", SHARES, 600.0, 1e4, 50.0, impact, durations, np.ones(len(SHARES)))


def checks_of(found: Responses) -> dict[str, Check]:
    """By name; the decays after one and two durations share one, so the later one."""
    return {check.name: check for check in check_validity(found, bootstraps=300)}


def test_a_market_with_the_square_root_law_passes_every_check() -> None:
    checks = checks_of(responses())
    assert {name: check.verdict for name, check in checks.items() if check.verdict != HOLDS} == {}
    assert checks["square root of size"].value == pytest.approx(0.5, abs=0.01)
    assert checks["concave in time"].value == pytest.approx(0.5**0.5, abs=0.01)
    assert checks["plateau near two thirds"].value == pytest.approx(2 / 3, abs=0.01)
    assert checks["plateau near two thirds"].low < 2 / 3 < checks["plateau near two thirds"].high
    assert checks["peaks at the end"].value == pytest.approx(1.0)
    assert checks["decays"].value == pytest.approx(2 / 3 + np.exp(-6) / 3, abs=0.005), "two durations after the end"


def test_intervals_of_few_runs_are_wider() -> None:
    """By Student's t and the root of n / (n - 1): central quantiles of five runs would contain the truth in 81 % of cases."""
    found = responses(noise=5.0, runs=5)
    buys = found.impact_ticks[:, 0, -1, STEPS]
    half = 2.776 * buys.std(ddof=1) / 5**0.5
    check = check_validity(found, bootstraps=4000)[0]
    assert check.high - check.low == pytest.approx(2 * half, rel=0.15)


def test_linear_impact_is_told_apart() -> None:
    checks = checks_of(responses(1.0, in_time=1.0, plateau=1.0, by_duration=-0.5, noise=0.01))
    assert checks["square root of size"].value == pytest.approx(1.0, abs=0.01)
    assert checks["square root of size"].verdict == FAILS
    assert checks["concave in size"].verdict == UNKNOWN, "its interval holds 1"
    assert checks["concave in time"].value == pytest.approx(0.5, abs=0.01)
    assert checks["concave in time"].verdict == UNKNOWN
    assert checks["duration matters little"].value == pytest.approx(-0.5, abs=0.01)
    assert checks["duration matters little"].verdict == FAILS
    assert checks["plateau near two thirds"].verdict == FAILS


def test_sides_that_differ_are_told_apart() -> None:
    assert checks_of(responses(sell_factor=0.95))["symmetric"].verdict == HOLDS, "small relative to the impact"
    unequal = checks_of(responses(sell_factor=0.5))["symmetric"]
    assert unequal.verdict == FAILS and unequal.value == pytest.approx(0.5 / 0.75, abs=0.01)
    wrong = checks_of(responses(sell_factor=-0.5))
    assert wrong["buys move the mid up"].verdict == HOLDS and wrong["sells move it down"].verdict == FAILS


def test_noise_makes_verdicts_unknown_instead_of_wrong() -> None:
    checks = checks_of(responses(noise=400.0))
    assert {checks[name].verdict for name in ("symmetric", "square root of size", "concave in time")} == {UNKNOWN}
    nothing = checks_of(responses(sell_factor=-1.0, noise=0.0))
    assert np.isnan(nothing["square root of size"].value) and nothing["square root of size"].verdict == UNKNOWN
    assert nothing["monotone in size"].verdict == FAILS


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(0.45, 0.55, HOLDS), (0.4, 0.5, UNKNOWN), (0.6, 0.7, FAILS), (0.1, 0.43, FAILS), (-np.inf, np.inf, UNKNOWN)],
)
def test_a_verdict_compares_the_interval_with_what_is_expected(low: float, high: float, verdict: str) -> None:
    assert Check("", "", 0.5, low, high, 0.43, 0.57).verdict == verdict


def test_runs_are_resampled_as_a_whole() -> None:
    """A factor common to a run changes the impact, not its exponent."""
    found = responses(noise=0.0)
    factor = np.random.default_rng(1).lognormal(0, 0.5, size=(found.runs, 1, 1, 1))
    scaled = replace(found, impact_ticks=found.impact_ticks * factor)
    delta, buys = (checks_of(scaled)[name] for name in ("square root of size", "buys move the mid up"))
    assert delta.high - delta.low < 1e-9 < 5 < buys.high - buys.low


def test_responses_are_signed_differences_of_the_mids() -> None:
    trials = plan_trials(2, 3)
    assert len(trials) == len(set(trials)) == 2 * 2 * (3 + 2)
    base = np.arange(2 * len(TIME), dtype=np.float64).reshape(2, -1)

    def read(trial: Trial) -> Floats:
        moved: Floats = base[trial.run, trial.readings] + trial.side * (trial.size + 1) * trial.factor
        return moved

    impact, by_duration, filled = collect_responses(((trial, read(trial), 0.5) for trial in trials), base, 3)
    assert (impact == np.array([1.0, 2.0, 3.0])[:, np.newaxis]).all() and filled.tolist() == [0.5] * 3
    assert by_duration[0, 0] == pytest.approx([2 / 3, 2, 6])
    assert TIME[STEPS] == 1.0 and trials[3].factor * STEPS == trials[3].readings[0]


@pytest.mark.parametrize(
    ("shares", "runs", "duration_s", "message"),
    [
        ([0.1, 0.1], 20, 600.0, "expected two or more different positive sizes"),
        ([0.1, 0.3], 4, 600.0, "seeds: expected 5 or more for intervals, got 4"),
        ([0.1, 0.3], 20, 10.0, "duration: expected 48 s or more, got 10 s"),
    ],
)
def test_settings_that_cannot_be_measured_are_refused(
    shares: list[float], runs: int, duration_s: float, message: str
) -> None:  # fmt: skip
    with pytest.raises(RealismError, match=message):
        check_settings(shares, runs, duration_s)
