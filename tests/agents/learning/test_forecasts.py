"""Forecasts as observations of execution environments: which one a decision sees, and policies that need them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import serl.environments
from benchmarks import robustness
from benchmarks.forecasts import Study, compared, gain_interval
from benchmarks.replay import FOLDER, SAMPLES
from serl.agents.execution.environment.forecasts import RecordedForecasts
from serl.agents.execution.environment.layout import Layout
from serl.agents.execution.environment.observation import Observer, Scales
from serl.agents.execution.environment.records import EPISODE
from serl.agents.execution.errors import LayoutMismatchError
from serl.agents.execution.policies.schedules import Twap
from serl.agents.learning.cli import train
from serl.agents.learning.cli_evaluate import evaluate as evaluate_command
from serl.agents.learning.environments import Scenario
from serl.agents.learning.evaluation import Contender, evaluate
from serl.agents.learning.market_config import MarketConfig, with_overrides
from serl.agents.learning.policy import load_policy
from serl.agents.learning.training import Training, TrainingConfig
from serl.agents.realism.days import day_origin
from serl.agents.realism.tape import SECOND_NS
from serl.agents.signals.errors import SignalError
from serl.agents.signals.grid import STEP_NS
from serl.agents.signals.inputs import day_inputs
from serl.agents.signals.labels import DOWN, UP
from serl.exchange.errors import ConfigError
from serl.exchange.records import Side
from serl.history.day import SymbolReference, write_day
from serl.history.generate import generate_day
from serl.researcher.inner.settings import TrainingSettings
from tests.agents.realism.sample import TEN_NS
from tests.agents.signals import sample

GOOG = FOLDER / SAMPLES["goog"]
AFTER_NS = TEN_NS + 900 * SECOND_NS
"""After the training hours, 10:00 to 10:12."""
NAMES = tuple(f"{name}_{horizon}s" for horizon in (1, 5) for name in ("trend", "move", "fill", "volume"))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("forecaster") / "amzn.signals"
    made = sample.forecaster()
    replace(made, training=replace(made.training, days=(day_origin(sample.day()),))).write(path)
    return path


def config(file: Path | None, **changes: Any) -> MarketConfig:
    """Orders of a minute after the training hours, in steps of 5 s."""
    settings = {
        "data": [Path("amzn.day")],
        "hours": "10:15-10:28",
        "duration_s": 60,
        "interval_s": 5,
        "environments": 4,
    }
    return with_overrides(MarketConfig(), settings | {"forecaster": file} | changes)


def scenario(file: Path | None, **changes: Any) -> Scenario:
    return Scenario(config(file, **changes), [sample.day()])


def expected(time_ns: int, sign: int) -> list[float]:
    """Of the last grid time before a time."""
    place = int(np.searchsorted(sample.grid().time_ns, time_ns)) - 1
    inputs, _ = day_inputs(sample.grid())
    made, chosen = sample.forecaster(), inputs.chosen(inputs.last == place)
    (rows,), (fills,), (volumes,) = (
        made.probabilities(chosen),
        made.fills(chosen.features),
        made.volumes(chosen.features),
    )
    own = fills[:, Side.SELL if sign > 0 else Side.BUY]  # a sign of 1 is a seller, for whom a rise is better
    logs = np.log(volumes / made.volume.means)
    return [
        value
        for row, fill, volume in zip(rows, own, logs, strict=True)
        for value in (sign * (row[UP] - row[DOWN]), row[UP] + row[DOWN], fill, volume)
    ]


def test_a_decision_sees_the_last_forecast_from_before_it(file: Path) -> None:
    env, plain = scenario(file).env(Scales()), scenario(None).env(Scales())
    assert env.layout.names == (*plain.layout.names, *NAMES)
    episodes = env.sampler.sample(np.random.default_rng(1), 4)
    episodes["sign"] = 1, -1, 1, -1
    seen, others = (each.reset(seed=1, options={"episodes": episodes})[0] for each in (env, plain))
    for step in range(11):
        times_ns = episodes["start_ns"] + step * episodes["interval_ns"]
        assert (env.market.frames["time_ns"] == times_ns).all()
        wanted = [expected(*each) for each in zip(times_ns.tolist(), episodes["sign"].tolist(), strict=True)]
        np.testing.assert_allclose(seen[:, -8:], wanted, atol=1e-6)
        np.testing.assert_array_equal(seen[:, :-8], others)
        seen, others = (each.step(np.full((4, 3), 0.5))[0] for each in (env, plain))
    assert seen.std(0)[-8:].all(), "they differ"


def test_nothing_from_a_decision_on_is_seen() -> None:
    """The commands at its time and later change; until then the forecasts stay, and after it they do not."""
    day, now_ns = sample.day(), AFTER_NS + 300 * SECOND_NS
    commands = day.commands.copy()
    later = commands["time_ns"] >= now_ns
    commands["qty_lots"][later] *= 7
    changed = replace(day, commands=commands)
    before, after = (RecordedForecasts(sample.forecaster(), [each], "x") for each in (day, changed))
    times_ns = now_ns + STEP_NS * np.arange(-100, 101)
    episodes = np.zeros(len(times_ns), EPISODE)
    episodes["sign"] = 1
    found, others = (each.observe(None, episodes, times_ns) for each in (before, after))
    np.testing.assert_array_equal(found[times_ns <= now_ns], others[times_ns <= now_ns])
    assert (found[-50:] != others[-50:]).any()


def test_a_day_of_another_tick_size_is_refused() -> None:
    tenths = replace(sample.day().reference, symbols=(SymbolReference("AMZN", "0.1"),))
    with pytest.raises(SignalError, match=r"expected a tick size of 0\.01 and a lot size of 1, .* got 0\.1 and 1"):
        RecordedForecasts(sample.forecaster(), [sample.day(), replace(sample.day(), reference=tenths)], "x")


def test_what_is_not_known_is_zero() -> None:
    """Before the day, in its first minute, and after it."""
    forecasts, grid = RecordedForecasts(sample.forecaster(), [sample.day()] * 2, "x"), sample.grid()
    times_ns = np.array(
        [0, grid.time_ns[0] + 1, grid.time_ns[0] + 59 * SECOND_NS, AFTER_NS, grid.time_ns[-1] + SECOND_NS]
    )
    episodes = np.zeros(5, EPISODE)
    episodes["day"], episodes["sign"] = 1, -1
    found = forecasts.observe(None, episodes, times_ns)
    assert (found[[0, 1, 2, 4]] == 0).all()
    np.testing.assert_allclose(found[3], expected(AFTER_NS, -1), atol=1e-6)


@pytest.mark.long
def test_a_policy_needs_the_forecaster_that_it_was_trained_with(file: Path, tmp_path: Path) -> None:
    """Beside one without forecasts in the same table."""
    settings = TrainingConfig.model_validate({
        "market": config(None).model_dump(mode="json"), "network": {"hidden": [8]},
        "ppo": {"steps": 200, "rollout_steps": 12, "minibatch": 24, "epochs": 1},
    })  # fmt: skip
    policies = {}
    for name, forecaster in (("with", file), ("without", None)):
        (tmp_path / name).mkdir()
        Training(settings, [scenario(forecaster).env(Scales())], tmp_path / name).run()
        policies[name] = load_policy(tmp_path / name / "policy.safetensors")
    trained = policies["with"]
    assert trained.interface.horizons_s == (1.0, 5.0) and trained.interface.forecaster.startswith("amzn.signals sha256")
    contenders = [Contender(name, policy, policy.modes[0]) for name, policy in policies.items()]
    table = evaluate(scenario(file, part="test"), contenders, 8, 1)
    assert [row.name for row in table.rows] == ["TWAP", "patience", "with", "without"]
    assert (table.rows[2].columns["pa"] != table.rows[3].columns["pa"]).any()
    with pytest.raises(ConfigError, match=r"expected forecasts for \(1.0, 5.0\), got none; give the market"):
        evaluate(scenario(None), contenders[:1], 8, 1)
    other = tmp_path / "other.signals"
    replace(sample.forecaster(), symbol="GOOG").write(other)
    with pytest.raises(LayoutMismatchError, match=r"forecaster: expected 'amzn\.signals sha256 .* got 'other\.signals"):
        evaluate(scenario(other), contenders[:1], 8, 1)


def test_hours_that_the_forecaster_has_seen_are_refused_unless_to_train(file: Path, tmp_path: Path) -> None:
    assert scenario(file, hours="10:05-10:20").env(Scales())
    with pytest.raises(ConfigError, match=r"has not seen the hours .* trained on 10:00:00-10:12:00"):
        scenario(file, hours="10:05-10:20", part="test").env(Scales())
    dated = replace(sample.day(), reference=replace(sample.day().reference, date="2012-06-21", parameters={}))
    made = sample.forecaster()
    replace(made, training=replace(made.training, days=("?",), dates=("2012-06-21",))).write(tmp_path / "dated")
    with pytest.raises(ConfigError, match="has not seen the hours"):
        Scenario(config(tmp_path / "dated", hours="10:05-10:20", part="test"), [dated]).env(Scales())
    table = evaluate(scenario(file, hours="10:05-10:20", part="test"), [Contender("twap", Twap(), "market")], 4, 1)
    assert len(table.rows) == 3, "who observes no forecasts may be compared there"


def test_where_there_are_no_forecasts(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="forecaster: expected none in parallel_env"):
        serl.environments.parallel_env(data="amzn.day", forecaster=file)
    with pytest.raises(ValueError, match=r"market.forecaster: expected none, got one"):
        TrainingSettings(market=config(file))
    with pytest.raises(ValueError, match=r"dynamic.forecaster: expected none, got one"):
        TrainingSettings(dynamic=config(file))
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(SignalError, match="expected a forecaster"):
        scenario(tmp_path / "bad").env(Scales())
    with pytest.raises(ConfigError, match=r"expected forecasts for \(1.0,\), got none"):
        Observer(1, Layout(horizons_s=(1.0,)), Scales())


def test_bars_have_no_forecasts(file: Path) -> None:
    class Bars:
        """A source that is no day with a book."""

        def market(self) -> Any:
            return scenario(None).market

    bars: Any = Bars()
    made = Scenario(config(file), source=bars)
    with pytest.raises(ConfigError, match=r"forecaster: expected days with a book as data, .* got bars"):
        made.env(Scales())


@pytest.mark.long
def test_the_commands_train_and_compare(file: Path, tmp_path: Path) -> None:
    """On a day that is long enough for the rule of the table, which is fitted from 10:00 on."""
    day_ns = TEN_NS, TEN_NS + 190 * 60 * SECOND_NS
    write_day(generate_day(1, "AMZN", start_ns=day_ns[0], end_ns=day_ns[1], commands_per_s=2.0), tmp_path / "amzn.day")
    market = config(None).model_dump(mode="json", exclude={"data"})
    ppo = {"steps": 200, "rollout_steps": 12, "minibatch": 24, "epochs": 1}
    (tmp_path / "short.yaml").write_text(yaml.safe_dump({"market": market, "ppo": ppo}))
    day, runs = str(tmp_path / "amzn.day"), []
    for name, options in (("with", ["--forecaster", str(file)]), ("without", [])):
        runs.append(str(tmp_path / name))
        words = [str(tmp_path / "short.yaml"), "--market", day, *options, "--output", runs[-1]]
        assert CliRunner().invoke(train, words, catch_exceptions=False).exit_code == 0
    words = [*runs, "--market", day, "--config", str(tmp_path / "short.yaml"), "--forecaster", str(file)]
    done = CliRunner().invoke(
        evaluate_command,
        [*words, "--hours", "13:02-13:09", "--episodes", "8", "--output", str(tmp_path)],
        catch_exceptions=False,
    )
    assert done.exit_code == 0
    lines = (tmp_path / "evaluation.md").read_text().splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| with")] == ["with", "without"]


def test_the_interval_of_a_gain_is_that_of_seeds_and_of_orders() -> None:
    clusters = np.repeat(np.arange(50), 8)
    assert gain_interval(np.full((5, 400), 0.5), clusters) == (0.5, 0.5)
    of_seeds = gain_interval(np.tile(np.arange(5.0)[:, None], 400), clusters)
    assert of_seeds[0] < 1.2 and of_seeds[1] > 2.8, "orders are alike, seeds are not"
    low, high = gain_interval(np.tile(np.arange(50.0)[clusters], (5, 1)), clusters)
    assert 8 < high - low < 10.5, "4.5 standard errors of 50 clusters, 14.4 / sqrt(50)"


@pytest.mark.long
@pytest.mark.skipif(not GOOG.exists(), reason="needs a LOBSTER sample in ../shared/data")
def test_the_comparison_runs_on_a_real_day() -> None:
    found = compared(GOOG, Study(seeds=1, steps=4000, orders=16, test_hours="12:30-13:00"))
    assert found["gain_low_bps"] <= found["gain_bps"] <= found["gain_high_bps"]
    assert found["gain_bps"] == pytest.approx(found["with_pa_bps"] - found["without_pa_bps"])


def test_the_interval_of_a_gain_of_few_seeds_is_as_wide_as_students() -> None:
    """The central draws of a bootstrap of six seeds contained the truth in 89 % of cases."""
    seeds = np.array([-8.0, -8.5, -9.4, 2.1, -4.7, 0.4])
    low, high = gain_interval(np.repeat(seeds[:, None], 16, axis=1), np.arange(16))
    assert high - low == pytest.approx(2 * 2.571 * seeds.std(ddof=1) / 6**0.5, rel=0.1)
    low, high = gain_interval(np.repeat(seeds[:, None], 16, axis=1), np.arange(16), 0.975)
    assert high - low == pytest.approx(2 * 3.163 * seeds.std(ddof=1) / 6**0.5, rel=0.2), (
        "the central draws are two thirds of it"
    )


@pytest.mark.long
def test_the_interval_against_an_adversary_holds_the_truth() -> None:
    """The central draws of six seeds held it in 86 % of cases."""
    held, days = 0, np.repeat(np.arange(16), 4)
    for number in range(60):
        random = np.random.default_rng(number)
        first, second = (
            random.normal(size=6)[None, :, None] + random.normal(0, 0.5, (2, 6, 64)) + np.array([0, 20])[:, None, None]
            for _ in range(2)
        )
        found = robustness.gain(first, second, days)
        held += found["low_bps"] <= 0 <= found["high_bps"]
    assert held / 60 > 0.93
