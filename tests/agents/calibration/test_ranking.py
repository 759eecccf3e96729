"""`serl ranking`: markets that rank policies alike, or the other way round; the command on a small day."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.calibration import ranking
from serl.agents.calibration.cli_ranking import ranking as command
from serl.agents.calibration.costs import day_orders
from serl.agents.calibration.ranking import POLICIES, Advantages, compare, spearman
from serl.agents.calibration.ranking_report import sentences, write_ranking
from serl.agents.execution.environment.episodes import Hours, RandomOrders
from serl.exchange.errors import ConfigError
from serl.history.day import write_day
from serl.history.generate import generate_day

COUNT = len(POLICIES)


def advantages(means: np.ndarray, seed: int) -> Advantages:
    """40 orders in 20 clusters whose noise is the same for all policies, and small noise of each."""
    random = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(20), 2)
    noise = random.normal(0, 2, 20)[clusters] + random.normal(0, 0.1, (COUNT, 40))
    return Advantages(means[:, None] + noise, clusters, "blocks")


def test_spearman_is_of_ranks() -> None:
    assert spearman(np.array([1.0, 2, 9]), np.array([-5.0, 0, 1])) == pytest.approx(1)
    assert spearman(np.array([1.0, 2, 9]), np.array([3.0, 2, 1])) == pytest.approx(-1)
    assert spearman(np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 4, 3])) == pytest.approx(0.8)


def test_equal_values_share_their_rank() -> None:
    """They had ranks in the order of the policies in both markets, so equal policies agreed perfectly."""
    assert spearman(np.array([2.0, 2, 2, 5]), np.array([1.0, 3, 2, 0])) == pytest.approx(-np.sqrt(0.6))
    assert spearman(np.array([2.0, 2, 2]), np.array([3.0, 3, 3])) == 0


def test_a_market_that_is_dearer_for_all_policies_ranks_them_alike() -> None:
    means = np.linspace(-5, 1, COUNT)
    found = compare(advantages(means, 1), advantages(means - 3, 2))
    assert found.correlation.value == pytest.approx(1) and found.correlation.low > 0.9
    assert found.largest_difference_bps < 0.2
    assert max(one.high - one.low for one in found.differences) < 0.3, "what all policies have in common is no noise"
    assert sum(one.low <= 0 <= one.high for one in found.differences) >= COUNT - 2
    np.testing.assert_allclose([one.value for one in found.day], means, atol=1.5)


def test_a_market_that_pays_who_waits_ranks_them_otherwise() -> None:
    means = np.linspace(-5, 1, COUNT)
    found = compare(advantages(means, 1), advantages(-means, 2))
    assert found.correlation.value == pytest.approx(-1) and found.largest_difference_bps == pytest.approx(6, abs=0.2)
    assert not found.differences[0].low <= 0 <= found.differences[0].high


def test_differences_by_hand() -> None:
    """The population is 1 bp dearer for all but the last policy, for which it is 1 bp cheaper."""
    pa_bps = np.tile(np.linspace(-5, 1, COUNT)[:, None], 40)
    change = np.append(np.full(COUNT - 1, -1.0), 1.0)
    real = Advantages(pa_bps, np.repeat(np.arange(20), 2), "blocks")
    found = compare(real, dataclasses.replace(real, pa_bps=pa_bps + change[:, None]))
    expected = change - change.mean()
    assert [one.value for one in found.differences] == pytest.approx(expected)
    for bound in ("low", "high"):
        assert [getattr(one, bound) for one in found.differences] == pytest.approx(expected)
    assert [one.value for one in found.population] == pytest.approx(pa_bps[:, 0] + change)
    assert found.largest_difference_bps == pytest.approx(expected[-1])


def test_orders_in_windows_without_trades_are_left_out() -> None:
    one = advantages(np.full(COUNT, 7.0), 3)
    one.pa_bps[:, :4] = np.nan
    assert np.isfinite(one.draws(1)).all() and np.isfinite(one.means).all()
    assert one.draws(1).mean(axis=0) == pytest.approx(one.means, abs=0.1), "they are not counted as 0 either"


def test_blocks_without_trades_are_no_clusters() -> None:
    """A draw of such blocks alone was a PA of 0: the interval of -7 ended at 0, and that of the rank correlation too."""
    means = np.linspace(-7, -5, COUNT)
    thin = advantages(means, 3)
    thin.pa_bps[:, 12:] = np.nan
    found = compare(thin.measured("day"), advantages(means, 4))
    assert found.orders == (12, 40) and found.clusters == (6, 20)
    assert all(one.low <= one.value <= one.high < -2 for one in found.day) and found.correlation.low > 0.5
    thin.pa_bps[:, 8:] = np.nan
    assert np.isnan(compare(thin.measured("day"), advantages(means, 4)).day[0].low), "four blocks are too few"
    thin.pa_bps[1:, :6] = np.nan
    assert np.isnan(thin.measured("day").draws(1)).any() and not (thin.measured("day").draws(1) == 0).any()
    thin.pa_bps[:] = np.nan
    with pytest.raises(ConfigError, match="day: expected trades while the orders are worked, got none; give other"):
        thin.measured("day")


def test_the_draws_of_the_two_markets_are_independent() -> None:
    """The same draws in both would cancel in their difference, whose interval would then have no width."""
    one = advantages(np.zeros(COUNT), 3)
    one.pa_bps[0] = np.where(one.clusters < 10, 5.0, -5.0)
    found = compare(one, one).differences[0]
    assert found.value == 0 and found.high - found.low > 2


def test_hours_that_are_too_short_are_named_in_times_of_day() -> None:
    hours = Hours(0, 36_000 * 10**9, 36_060 * 10**9, 1.0)
    with pytest.raises(
        ConfigError, match=r"expected at least 600 s, the duration of an order, got 10:00:00-10:01:00; give"
    ):
        RandomOrders([hours])


def test_hours_outside_the_day_are_refused() -> None:
    """They ended before they began: "got 20:00:00-09:31:00"."""
    day = generate_day(3, end_ns=generate_day(3).reference.first_time_ns + 60 * 10**9)
    with pytest.raises(ConfigError, match=r"within the day's 09:30:00-09:3.*, got 20:00:00-21:00:00; give hours of"):
        day_orders(day, 20 * 3600 * 10**9, 21 * 3600 * 10**9, 1)


def test_few_clusters_give_no_interval(tmp_path: Path) -> None:
    """All draws from one block are the value itself: intervals had no width."""
    found = compare(
        dataclasses.replace(advantages(np.linspace(-5, 1, COUNT), 1), clusters=np.zeros(40, np.int64)),
        advantages(np.linspace(-5, 1, COUNT), 2),
    )
    assert all(np.isnan(one.low) and np.isnan(one.high) for one in (*found.day, *found.differences, found.correlation))
    assert all(one.low < one.value < one.high for one in found.population)
    for path in write_ranking(found, "", "one block", 1, tmp_path / "r.html"):
        assert path.stat().st_size
    numbers = json.loads((tmp_path / "r.json").read_text())
    assert numbers["rank_correlation"]["interval"] is None and numbers["pa_bps"]["TWAP"]["population"]["interval"]
    assert "(no interval)" in (tmp_path / "r.html").read_text()
    assert "of which 5 are needed: give longer --hours" in sentences(found)[-1]


@pytest.mark.long
def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: POLICIES[name] for name in ("TWAP", "passive", "all at once")}
    for name, value in (("POLICIES", few), ("DAY_PAIRS", 2), ("POPULATION_PAIRS", 1)):
        monkeypatch.setattr(ranking, name, value)
    write_day(generate_day(3), tmp_path / "a.day")
    arguments = [
        str(tmp_path / "a.day"),
        "small",
        "--hours",
        "10:00-10:15",
        "--seeds",
        "2",
        "-o",
        str(tmp_path / "r.html"),
    ]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0 and "rank correlation" in result.output and "all at once" in result.output
    numbers = json.loads((tmp_path / "r.json").read_text())
    assert set(numbers["pa_bps"]) == set(few) and numbers["orders"] == [4, 4]
    assert (tmp_path / "r.png").stat().st_size > 10_000 and "a.day and small" in (tmp_path / "r.html").read_text()
