"""The caveats that a calibration must report."""

from serl.agents.calibration.score import HeldOutScores, SeedSample

TOUCH_ONLY = (
    "expected a day with at least two levels a side, got the touch alone: where orders behind it rest and when they are cancelled cannot "
    "be measured, and on such days fitted populations were further from the held-out hours than zero intelligence; use a day with more "
    "levels"
)
TOUCH_ONLY_OPTION = ", or give --touch-only to fit it all the same"
ONE_SIDED_EXCESS_MAX = 0.01
"""Largest excess share of time with a one-sided book. Above it, a policy tested in the population meets a market that the day does not have."""


def caveats(scored: dict[str, HeldOutScores], levels: int, tested: dict[str, HeldOutScores] | None = None) -> list[str]:
    """The caveats as sentences; empty if there are none. scored, tested: as in `Calibration`. levels: the day's levels per side."""
    found = ["the day shows the touch alone: what lies behind it is not measured"] if levels == 1 else []
    found += _against_baseline(scored["calibrated"].mean_l1, scored["baseline"].mean_l1)
    real, simulated = scored["ceiling"].one_sided_share.mean, scored["calibrated"].one_sided_share.mean
    if simulated > real + ONE_SIDED_EXCESS_MAX:
        found.append(f"the simulated book lacks a side {simulated:.1%} of the time, the real one {real:.1%}")
    if tested:
        against = _against_baseline(tested["calibrated"].mean_l1, tested["baseline"].mean_l1)
        found += [f"on the test days: {text}" for text in against]
    return found


def _against_baseline(calibrated: SeedSample, baseline: SeedSample) -> list[str]:
    """Caveats from the comparison with the baseline. Both samples have the same seeds, in the same order."""
    gain = SeedSample(baseline.values - calibrated.values)
    figures = f"(mean L1 {calibrated.mean:.3f} against {baseline.mean:.3f})"
    if gain.mean <= 0:
        return [
            f"the population is not closer to the held-out hours than zero intelligence at measured rates {figures}: do not use it"
        ]
    if not gain.interval[0] > 0:
        return [
            f"the population is not shown to be closer to the held-out hours than zero intelligence {figures}; give more --score-seeds"
        ]
    return []
