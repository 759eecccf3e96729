"""What a calibration says against itself, from scores that are made up."""

from dataclasses import replace

import numpy as np
import pytest

from serl.agents.calibration.caveats import caveats
from serl.agents.calibration.score import HeldOutScores, SeedSample, levels_missing_share, one_sided_share
from serl.agents.realism.tape import Tape, build_tape
from tests.agents.calibration.sample import poisson_day


def scores(*mean_l1: float, one_sided: float = 0.0) -> HeldOutScores:
    none = SeedSample(np.zeros(1))
    return HeldOutScores(
        SeedSample(np.array(mean_l1)), none, none, none, {}, {}, SeedSample(np.array([one_sided])), none, [1]
    )


def test_the_interval_over_seeds_is_students() -> None:
    values = np.random.default_rng(0).normal(size=12)
    low, high = SeedSample(values).interval
    assert (high - low) / 2 == pytest.approx(2.201 * values.std(ddof=1) / np.sqrt(12), rel=2e-3)


@pytest.mark.parametrize(
    ("calibrated", "baseline", "expected"),
    [
        (scores(0.18, 0.19, 0.2), scores(0.38, 0.41, 0.4), []),
        (
            scores(0.30, 0.31, 0.3),
            scores(0.25, 0.24, 0.25),
            ["is not closer to the held-out hours than zero intelligence"],
        ),
        (scores(0.20, 0.30, 0.2), scores(0.25, 0.24, 0.25), ["is not shown to be closer"]),
        (scores(0.20), scores(0.25), ["is not shown to be closer"]),  # one seed has no interval
        (
            scores(0.18, 0.19, 0.2, one_sided=0.05),
            scores(0.38, 0.41, 0.4),
            ["lacks a side 5.0% of the time, the real one 0.0%"],
        ),
    ],
)
def test_a_population_that_is_no_better_is_said_to_be(
    calibrated: HeldOutScores, baseline: HeldOutScores, expected: list[str]
) -> None:
    found = caveats({"calibrated": calibrated, "baseline": baseline, "ceiling": scores(0.14)}, levels=5)
    assert len(found) == len(expected) and all(part in text for part, text in zip(expected, found, strict=True))


def test_the_touch_alone_is_a_caveat() -> None:
    known = {"calibrated": scores(0.18, 0.19), "baseline": scores(0.4, 0.39), "ceiling": scores(0.14)}
    assert caveats(known, levels=1) == ["the day shows the touch alone: what lies behind it is not measured"]


def emptied(tape: Tape, first: int, last: int) -> Tape:
    """The same tape without bids in some books."""
    ticks = tape.book_ticks.copy()
    ticks[first:last, 0] = 0
    return replace(tape, book_ticks=ticks)


def test_time_with_one_side_and_missing_levels_are_counted_not_dropped() -> None:
    tape = build_tape(poisson_day(), 3)
    assert one_sided_share(tape) == levels_missing_share(tape) == 0
    half = len(tape) // 2
    without = emptied(tape, 1, half + 1)
    time_share = (tape.time_ns[half] - tape.time_ns[0]) / (tape.time_ns[-1] - tape.time_ns[0])
    assert one_sided_share(without) == pytest.approx(time_share)
    assert levels_missing_share(without) == pytest.approx(time_share / 2)
