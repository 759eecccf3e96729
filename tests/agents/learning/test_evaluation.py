"""Policies on the same orders."""

import dataclasses
import json
import tracemalloc
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from serl import tables
from serl.agents.execution.environment.episodes import Hours
from serl.agents.execution.environment.interface import Interface
from serl.agents.execution.environment.observation import Scales
from serl.agents.execution.environment.records import EPISODE
from serl.agents.execution.environment.vector import ExecutionVectorEnv
from serl.agents.execution.errors import DataError, LayoutMismatchError
from serl.agents.execution.policies.policy import Policy as AnyPolicy
from serl.agents.execution.policies.reactive import Aggressive, Passive, Patience
from serl.agents.execution.policies.schedules import Twap
from serl.agents.execution.policies.volume import CurveError, VolumeCurve
from serl.agents.learning import evaluation
from serl.agents.learning.cli_evaluate import check_policies, parse_contender, parse_contenders, provenance
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import (
    MEASURES,
    Contender,
    Hold,
    Outcome,
    bootstrap_clusters,
    bootstrap_estimates,
    evaluate,
    execute_orders,
)  # fmt: skip
from serl.agents.learning.market_config import MarketConfig
from serl.agents.learning.network_config import NetworkConfig
from serl.agents.learning.networks import ActorCritic
from serl.agents.learning.policy import Policy
from serl.agents.learning.sources import Source, shares_time
from serl.agents.learning.table import Section, comma_separated, markdown, write_tables
from serl.agents.learning.training import POLICY
from serl.agents.realism.distances import CLUSTERS_MIN
from serl.agents.students_t import expanded
from serl.exchange.config import time_of_day_ns
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day, write_day
from serl.history.generate import generate_day
from tests.agents.execution.test_data import rows, write
from tests.agents.half_hour import SMALL

MARKET = MarketConfig(hours="09:35-10:25", environments=5, duration_s=60, interval_s=10)


@pytest.fixture(scope="module")
def day() -> Day:
    return generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("10:30"))


@pytest.fixture(scope="module")
def scenario(day: Day) -> Scenario:
    return Scenario(MARKET, [day])


def write_quiet_day(path: Path) -> None:
    """With a part of each kind, and few orders."""
    day = generate_day(3, start_ns=time_of_day_ns("09:30"), end_ns=time_of_day_ns("14:00"), commands_per_s=0.5)
    write_day(day, path)


def episodes(scenario: Scenario, count: int) -> Rows:
    return scenario.sampler.sample(np.random.Generator(np.random.PCG64(7)), count)


def outcome_of(scenario: Scenario, policy: AnyPolicy, rows: Rows) -> Outcome:
    return execute_orders(scenario.env_for(policy, policy.modes[0]), policy, rows)


def test_a_policy_that_does_not_exist_is_named(scenario: Scenario) -> None:
    for name in ("runs/nothing", "twop:limit"):
        with pytest.raises(
            ConfigError, match=f"{name}: does not exist; give one of twap, .* twap:limit, the file .* folder of its run"
        ):
            parse_contender(name, scenario, None)


def test_policies_of_one_name_are_named_as_they_were_given(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables and datasets had several rows of one name, such as those of runs/a/seed1 and runs/b/seed1."""
    monkeypatch.chdir(tmp_path)
    interface = Interface.from_env(scenario.env(Scales()))
    network = ActorCritic(NetworkConfig(), len(interface.names), interface.low, interface.high, 1)
    for folder in ("a/run", "b/run"):
        Path(folder).mkdir(parents=True)
        Policy(network, interface, {"seed": 1, "steps": 7}).save(Path(folder) / POLICY)
    contenders = parse_contenders(["twap", "a/run", "b/run"], scenario, None)
    assert [one.name for one in contenders] == ["twap", "a/run", "b/run"]
    assert [one.name for one in parse_contenders(["twap", "a/run"], scenario, None)] == ["twap", "run"]
    assert "a/run: 7 steps, seed 1. b/run: 7 steps" in provenance(scenario, contenders)
    for part, said in (("train", True), ("validation", True), ("test", False)):
        monkeypatch.setattr(scenario, "config", scenario.config.model_copy(update={"part": part, "hours": None}))
        assert ("its figures are optimistic" in provenance(scenario, contenders)) == said
        assert "optimistic" not in provenance(scenario, contenders[:1])  # a schedule
    check_policies("POLICIES", ["twap", "a/run", "b/run"])
    for again in ("a/run/", f"a/run/{POLICY}", "b/../a/run"):
        with pytest.raises(
            ConfigError, match=r"POLICIES: expected different ones, got .*a/run/.* twice; leave one out"
        ):
            check_policies("POLICIES", ["a/run", "twap", again])


def test_every_order_is_played_once_in_its_place(scenario: Scenario) -> None:
    rows = episodes(scenario, 13)
    together, backwards = outcome_of(scenario, Twap(), rows), outcome_of(scenario, Twap(), rows[::-1])
    for name, values in together.results.items():
        assert len(values) == 13
        np.testing.assert_array_equal(values, backwards.results[name][::-1])
    assert together.results["ffr"].min() == 1
    assert together.actions.shape == (13 * 6, 1)
    np.testing.assert_array_equal(together.lots.sum(axis=1), rows["qty_lots"])


def test_orders_of_one_evaluation_have_the_same_number_of_decisions(scenario: Scenario) -> None:
    rows = episodes(scenario, 2)
    rows["steps"][1] = 5
    with pytest.raises(ConfigError, match="same number of decisions"):
        outcome_of(scenario, Twap(), rows)


@pytest.mark.long
def test_the_market_vwap_covers_the_whole_window_of_orders_that_are_done_early(scenario: Scenario) -> None:
    evaluation = evaluate(scenario, [Contender("impatient", Aggressive(), "market")], 20, 7)
    rows = episodes(scenario, 20)
    held, once = outcome_of(scenario, Hold(), rows).results, outcome_of(scenario, Aggressive(), rows).results
    expected = rows["sign"] * (once["price_ticks"] / held["vwap_ticks"] - 1) * 1e4
    np.testing.assert_allclose(evaluation.rows[2].columns["pa"], expected)
    assert held["afi"].tolist() == [1.0] * 20


@pytest.mark.long
def test_a_twap_has_no_advantage_over_itself(scenario: Scenario) -> None:
    everyone = [Contender("again", Twap(), "market"), Contender("impatient", Aggressive(), "market")]
    evaluation = evaluate(scenario, everyone, 20, 7)
    for row in (evaluation.rows[0], evaluation.rows[2]):
        assert row.estimates["PA_twap"].value == row.estimates["PA_twap"].low == row.estimates["PA_twap"].high == 0
    assert evaluation.rows[3].estimates["PA_twap"].value != 0
    assert evaluation.clusters > 10
    assert evaluation.unit == "blocks of a window's length"


@pytest.mark.long
def test_impact_and_risk_make_the_shortfall(day: Day) -> None:
    everyone = [Contender("impatient", Aggressive(), "market"), Contender("passive", Passive(), "hybrid")]
    large = MARKET.model_copy(update={"share_min": 0.5, "share_max": 0.8})
    replayed = evaluate(Scenario(large, [day]), everyone, 20, 7)
    for row in replayed.rows:
        parts = row.estimates["IMPACT"].value + row.estimates["RISK"].value
        assert parts == pytest.approx(row.estimates["IS"].value)
    assert replayed.rows[0].estimates["IMPACT"].value < 0, "slices that cross move the price against the next"
    assert replayed.rows[2].estimates["IMPACT"].value == 0, "a single trade meets a market that it has not moved"
    static = evaluate(Scenario(large.model_copy(update={"kind": "static"}), [day]), everyone, 20, 7)
    assert [row.estimates["IMPACT"].value for row in static.rows] == [0, 0, 0, 0]


@pytest.mark.long
def test_simulated_days_are_in_one_part_only() -> None:
    config = MarketConfig(
        kind="dynamic", population="small", hours="09:40-10:20", environments=4, duration_s=60, simulated_days=5
    )
    days = {
        part: {hours.day for hours in Scenario(config).source.hours(part)} for part in ("train", "validation", "test")
    }
    assert all(len(found) == 5 for found in days.values())
    assert not (days["train"] & days["validation"] or days["train"] & days["test"] or days["validation"] & days["test"])
    later = Scenario(config.model_copy(update={"first_day": 3})).source.hours("test")
    assert [hours.day for hours in later] == [day + 3 for day in sorted(days["test"])]
    evaluation = evaluate(Scenario(config), [Contender("passive", Passive(), "hybrid")], 8, 7)
    assert evaluation.rows[2].estimates["FFR"].value == 1


def test_the_bootstrap_clusters() -> None:
    rows = np.zeros(40, EPISODE)
    rows["day"], rows["steps"], rows["interval_ns"] = np.arange(40) % 12, 1, 10
    rows["start_ns"] = np.arange(40)
    numbers, unit = bootstrap_clusters(rows, rows["day"] % 6)
    assert (unit, numbers.max() + 1) == ("dates", 6)
    numbers, unit = bootstrap_clusters(rows, rows["day"] % 5)
    assert (unit, numbers.max() + 1) == ("dates", 5)
    numbers, unit = bootstrap_clusters(rows, rows["day"] % 4)
    assert (unit, numbers.max() + 1) == ("symbol-days", 12)
    rows["day"] = np.arange(40) % 10
    numbers, unit = bootstrap_clusters(rows, rows["day"] % 4)
    assert (unit, numbers.max() + 1) == ("symbol-days", 10)
    rows["day"] = 0
    numbers, unit = bootstrap_clusters(rows, rows["day"])
    assert (unit, numbers.max() + 1) == ("blocks of a window's length", 4)


@pytest.mark.long
def test_the_rule_is_in_every_table_and_the_others_are_paired_with_it(scenario: Scenario) -> None:
    rule = Contender("patience", Patience(2, 1, 1), "hybrid")
    evaluation = evaluate(scenario, [Contender("impatient", Aggressive(), "market")], 20, 7, rule=rule)
    assert [row.name for row in evaluation.rows] == ["TWAP", "patience", "impatient"]
    own, other = evaluation.rows[1], evaluation.rows[2]
    assert (own.columns["pa_rule"] == 0).all()
    np.testing.assert_allclose(other.columns["pa_rule"], other.columns["pa"] - own.columns["pa"], atol=1e-9)
    difference = other.estimates["PA"].value - own.estimates["PA"].value
    assert other.estimates["PA_rule"].value == pytest.approx(difference)


def test_an_interval_needs_so_many_clusters() -> None:
    columns = {"pa": np.array([1.0, 2.0, 4.0, 8.0, 9.0])}
    enough, few = (bootstrap_estimates(columns, np.arange(5), 1, ("PA",), clusters_min=least)["PA"] for least in (5, 6))
    assert enough.interval == [enough.low, enough.high] and enough.low < enough.value < enough.high
    assert few.interval is None and few.value == enough.value


@pytest.mark.long
def test_intervals_resample_whole_days() -> None:
    days = np.repeat(np.arange(4), 100)
    level = np.array([-3.0, -1.0, 1.0, 3.0])[days]
    columns = {name: level for name, _ in MEASURES.values()}
    by_day = bootstrap_estimates(columns, days, 1)["PA"]
    by_order = bootstrap_estimates(columns, np.arange(400), 1)["PA"]
    assert by_day.value == by_order.value == 0
    assert by_day.high - by_day.low > 5 * (by_order.high - by_order.low)


def test_the_bootstrap_keeps_one_draw_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """All draws of a hundred thousand orders were 1.6 GB."""
    monkeypatch.setattr(evaluation, "BOOTSTRAPS", 100)
    orders = 50_000
    advantages, clusters = np.random.default_rng(1).normal(size=orders), np.arange(orders) % 20
    tracemalloc.start()
    bootstrap_estimates({"pa": advantages}, clusters, 1, ("PA",))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * advantages.nbytes


@pytest.mark.long
def test_intervals_of_few_days_hold_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven days, as the bars' test part has: the central 95 % of the draws contain the truth in 86 % of cases."""
    monkeypatch.setattr(evaluation, "BOOTSTRAPS", 400)
    days, random, held = np.repeat(np.arange(7), 2), np.random.default_rng(0), 0
    for _ in range(300):
        values = random.normal(size=7)[days]
        found = bootstrap_estimates({"pa": values}, days, 1, ("PA",))["PA"]
        held += found.low <= 0 <= found.high
    assert 0.92 < held / 300 <= 0.98
    low, high = expanded(7)
    assert low == pytest.approx(1 - high) and low == pytest.approx(0.0041, abs=2e-4)
    assert expanded(10**6)[0] == pytest.approx(0.025, abs=1e-4)


def test_a_volume_curve_of_the_day_itself_is_refused(day: Day, tmp_path: Path) -> None:
    """VWAP would know how much is traded when."""
    dated = Day(day.commands, day.rows, dataclasses.replace(day.reference, date="2026-01-05"))
    curve = tmp_path / "curve.json"
    VolumeCurve.fit([dated]).save(curve)
    with pytest.raises(
        CurveError, match="expected a volume curve of earlier days, got one that was fitted on DEMO 2026-01-05 itself"
    ):
        parse_contender("vwap", Scenario(MARKET, [dated]), curve)
    later = Day(day.commands, day.rows, dataclasses.replace(day.reference, date="2026-01-06"))
    assert parse_contender("vwap", Scenario(MARKET, [later]), curve).name == "vwap"


def test_fewer_than_five_clusters_give_no_interval(day: Day) -> None:
    """Of orders in one block the ends were the value itself; of three blocks they contained the truth in 75 % of cases."""
    market = MARKET.model_copy(update={"duration_s": 1200, "interval_s": 300})
    found = evaluate(Scenario(market, [day]), [], 12, 1)
    assert found.clusters < CLUSTERS_MIN and found.rows[0].estimates["PA"].value < 0
    assert (found.rows[0].remaining[:, 0] == 1).all() and (abs(found.rows[0].remaining[:, 3] - 0.25) < 0.1).all()
    assert all(np.isnan((one.low, one.high)).all() for row in found.rows for one in row.estimates.values())
    text = markdown([Section(found, "")])
    assert (
        "(no interval)" in text
        and "nan]" not in text
        and f"{found.clusters} blocks of a window's length, of which 5 are needed" in text
    )


def test_hours_take_the_place_of_those_of_one_part_only(tmp_path: Path) -> None:
    """Rules are fitted on training orders, also where other hours are tested."""
    path = tmp_path / "a.day"
    write_quiet_day(path)
    config = MarketConfig(data=[path], hours="13:10-13:50", part="test", environments=4, duration_s=60, interval_s=10)
    source = Scenario(config).source
    span_ns = time_of_day_ns("13:10"), time_of_day_ns("13:50")
    (tested,) = source.hours("test")
    assert (tested.start_ns, tested.end_ns) == span_ns
    for part in ("train", "validation"):
        assert all(hours.end_ns <= span_ns[0] for hours in source.hours(part))
    early = Scenario(config.model_copy(update={"hours": "10:10-10:50"})).source
    with pytest.raises(ConfigError, match="without those of the part train, which are used too, got 10:10-10:50"):
        early.hours("train")


@pytest.mark.parametrize("hours", ["13:10-14:30", "09:00-09:50"])
def test_hours_beyond_a_recorded_day_are_refused_before_an_order_is_drawn(tmp_path: Path, hours: str) -> None:
    """A training ended at the first order there, after any time."""
    path = tmp_path / "a.day"
    write_quiet_day(path)
    config = MarketConfig(data=[path], hours=hours, environments=4, duration_s=60, interval_s=10)
    with pytest.raises(
        ConfigError, match=f"hours within those of the day of DEMO, 09:30:00-13:59:55, got {hours}; choose"
    ):
        Scenario(config).sampler  # noqa: B018


def trained_in(scenario: Scenario) -> Policy:
    """As the file of a policy that was trained there."""
    env = scenario.env(Scales())
    network = ActorCritic(NetworkConfig(), env.layout.size, [0.0] * 3, [1.0] * 3, 0)
    return Policy(network, Interface.from_env(env), {"data": [scenario.describe()]}, "mine")


def test_a_policy_is_not_compared_in_the_hours_in_which_it_was_trained(tmp_path: Path) -> None:
    path = tmp_path / "a.day"
    write_quiet_day(path)
    config = MarketConfig(kind="static", data=[path], hours="13:00-13:50", environments=4, duration_s=60, interval_s=20)
    policy = trained_in(Scenario(config))
    tested = Scenario(config.model_copy(update={"hours": "13:40-13:55", "part": "test"}))
    with pytest.raises(ConfigError, match=r"mine: expected a policy that was not trained .* trained in 13:00-13:50"):
        evaluate(tested, [Contender("mine", policy, policy.modes[0])], 4, 1)
    for changes in ({"hours": "13:50-13:55", "part": "test"}, {"part": "train"}):
        Scenario(config.model_copy(update=changes)).check_not_trained_on(policy)


@pytest.mark.parametrize("kind", ["books", "bars", "simulated days"])
def test_a_policy_is_not_compared_on_the_part_in_which_it_was_trained(kind: str, tmp_path: Path) -> None:
    """Neither settings name hours."""
    config = MarketConfig(kind="static", part="test", environments=4, duration_s=60, interval_s=60)
    if kind == "books":
        path = tmp_path / "a.day"
        write_quiet_day(path)
        config = config.model_copy(update={"data": [path]})
    elif kind == "bars":
        config = config.model_copy(update={"data": [write(tmp_path / "a.parquet", rows())]})
    else:
        config = MarketConfig(kind="dynamic", population=SMALL, part="test", simulated_days=2, duration_s=60)
    scenario = Scenario(config)
    with pytest.raises(
        ConfigError, match=r"mine: expected a policy that was not trained .* trained in the part test; "
    ):
        scenario.check_not_trained_on(trained_in(scenario))
    for part in ("train", "validation"):
        scenario.check_not_trained_on(trained_in(Scenario(config.model_copy(update={"part": part, "hours": None}))))
    if kind == "books":  # the default of the one, hours of the other
        learnt = trained_in(Scenario(config.model_copy(update={"part": "train"})))
        with pytest.raises(ConfigError, match="trained in the part train"):
            Scenario(config.model_copy(update={"hours": "12:00-12:40"})).check_not_trained_on(learnt)
    else:  # other folds of the training
        folds = config.model_copy(update={"part": "train", "fold": 0, "folds": 2})
        learnt = trained_in(Scenario(folds))
        Scenario(folds.model_copy(update={"part": "fold"})).check_not_trained_on(learnt)
        with pytest.raises(ConfigError, match="trained in the part train"):
            Scenario(folds.model_copy(update={"part": "fold", "fold": 1})).check_not_trained_on(learnt)


def test_many_days_are_soon_compared_with_those_of_a_training() -> None:
    """Thousands of stock-days: every pair was looked at."""
    days = 5000
    source = SimpleNamespace(
        learnt_in=lambda trained: [(day, 0, 60) for day in range(days)],
        hours=lambda part: [Hours(day, 60, 120, 1.0) for day in range(days)],
    )
    before = process_time()
    assert not shares_time(cast(Source, source), "test", {})
    assert process_time() - before < 0.3
    source.hours = lambda part: [Hours(days - 1, 59, 120, 1.0)]
    assert shares_time(cast(Source, source), "test", {})


@pytest.mark.long
def test_a_learnt_policy_gets_its_own_observations(day: Day, scenario: Scenario, tmp_path: Path) -> None:
    hybrid = Scenario(MARKET.model_copy(update={"actions": "hybrid", "offset_bps": 2.0}), [day])
    interface = Interface.from_env(hybrid.env(hybrid.fit_scales()))
    network = ActorCritic(NetworkConfig(memory=8), len(interface.names), interface.low, interface.high, 0)
    policy = Policy(network, interface, {})
    evaluation = evaluate(scenario, [Contender("learnt", policy, "hybrid")], 12, 7)
    assert evaluation.rows[2].actions.shape[1] == 3
    sections = [Section(evaluation, "a test")] * 2
    paths = write_tables(sections, tmp_path)
    assert [path.suffix for path in paths] == [".md", ".csv", ".html", ".json"]
    numbers = json.loads(paths[3].read_text())
    assert [market["seed"] for market in numbers["markets"]] == [7, 7] and numbers["made"]["seed"] == 7
    learnt = evaluation.rows[2].estimates["PA"]
    assert numbers["markets"][0]["policies"][2]["PA"]["value"] == pytest.approx(learnt.value)
    measures = len(MEASURES) - 1  # without fees
    assert len(comma_separated(sections).splitlines()) == 1 + 2 * 3 * measures
    read, direct = tables.evaluation(tmp_path), tables.evaluation(evaluation)
    assert len(read) == 2 * len(direct) == 2 * 3 * measures
    np.testing.assert_array_equal(read["value"][: len(direct)], direct["value"])
    (row,) = np.flatnonzero((direct["policy"] == "learnt") & (direct["measure"] == "PA"))
    assert direct["value"][row] == learnt.value and direct["unit"][row] == "bps" and direct["orders"][row] == 12
    orders = tables.evaluation_orders(evaluation)
    assert len(orders) == 3 * 12 and orders["order"].tolist() == 3 * list(range(12))
    np.testing.assert_array_equal(orders["pa_bps"][orders["policy"] == "learnt"], evaluation.rows[2].columns["pa"])
    assert "data:image/png;base64," in paths[2].read_text()
    with pytest.raises(LayoutMismatchError, match="offset_bps"):
        policy.actions(
            ExecutionVectorEnv(scenario.market, scenario.sampler, **interface.settings() | {"offset_bps": 0.0})
        )


def test_a_day_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    """It gave twice as many blocks to resample, and narrower intervals."""
    (tmp_path / "here").mkdir()
    paths = [tmp_path / "a.day", tmp_path / "here" / ".." / "a.day"]
    with pytest.raises(DataError, match=r"market\.data: expected different days, got .*a\.day twice; leave one out"):
        Scenario(MarketConfig(kind="replay", data=paths))
