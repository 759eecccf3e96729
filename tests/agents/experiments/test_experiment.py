"""The file of an experiment: what arms change, and what is wrong with them before anything is simulated."""

import re
from pathlib import Path
from typing import Any

import pytest

from serl.agents.experiments.errors import ExperimentError
from serl.agents.experiments.experiment import load_experiment, parse_experiment
from serl.agents.experiments.store import RunFile
from serl.agents.traders.builtin import EXPERIMENTS, builtin_names
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import fingerprint
from serl.exchange.errors import ConfigError
from serl.result_file import ResultFileError
from tests.agents.experiments.sample import sample
from tests.doc_blocks import blocks


def test_arms_change_values_lists_and_settings_that_the_file_leaves_out() -> None:
    arms = {
        "plain": None,
        "dotted": {"groups.1.latency_us": 50, "groups.1.profile.noise_variance_ticks2": 9, "value.shocks_per_h": 2.0},
        "nested": {"groups": {2: {"count": 7}}, "value": {"shock_ticks": 5}, "close": "15:00"},
        "whole": {"groups": [{"trader": "noise", "count": 3}]},
    }
    found = {arm.name: arm.population for arm in sample(arms=arms, baseline="nested").arms}
    assert list(found) == ["nested", "plain", "dotted", "whole"], "the baseline first"
    base = load_population("small")
    assert found["plain"] == base
    dotted, nested = found["dotted"], found["nested"]
    assert dotted.groups[1].latency_us == 50 and dotted.groups[1].profile == {
        **base.groups[1].profile,
        "noise_variance_ticks2": 9,
    }
    assert dotted.value.shocks_per_h == 2.0 and dotted.value.mean_ticks == base.value.mean_ticks
    assert nested.groups[2].count == 7 and nested.groups[:2] == base.groups[:2]
    assert nested.value.shock_ticks == 5 and nested.close == "15:00"
    assert [group.count for group in found["whole"].groups] == [3]
    assert len({fingerprint(population) for population in found.values()}) == 4


def test_runs_of_other_code_of_own_traders_are_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of a population's modules was no part of its fingerprint, so `--resume` mixed runs from before and after a change."""
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "my_own_traders.py"
    module.write_text("")
    values = {
        "name": "own", "population": str(tmp_path / "own.yaml"), "until": "09:31", "seeds": 1, "arms": {"one": {}, "two": {"name": "other"}},
    }  # fmt: skip
    (tmp_path / "own.yaml").write_text("{name: own, modules: [my_own_traders], groups: [{trader: noise}]}")
    RunFile(tmp_path, parse_experiment(values, "own"), resume=False).close()
    RunFile(tmp_path, parse_experiment(values, "own"), resume=True).close()
    module.write_text("CHANGED = True\n")
    with pytest.raises(ResultFileError, match=r"those of others \(arms differ\)"):
        RunFile(tmp_path, parse_experiment(values, "own"), resume=True)


def test_seeds_measures_and_baseline_have_defaults() -> None:
    found = sample(seeds=[4, 2], measures=["pnl", "trades"])
    assert (found.seeds, found.measures, found.baseline.name) == ((4, 2), ("pnl", "trades"), "plain")
    assert sample(seeds=3).seeds == (1, 2, 3)
    assert len(sample().measures) == 12


def test_an_invalid_end_is_named() -> None:
    with pytest.raises(
        ConfigError, match="arm 'plain': until: expected a time of day like 10:30 or 10:30:15, got '25:00'"
    ):
        sample(until="25:00")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arm": {}}, "expected a setting of an experiment, got 'arm'; did you mean arms?"),
        ({"arms": {"plain": {}}}, "arms: expected at least 2 items"),
        ({"arms": {0.05: {}, "b": {}}}, "arms: expected names as text, got 0.05; put it in quotes"),
        ({"baseline": "plan"}, "baseline: expected an arm, got 'plan'; did you mean plain?"),
        ({"measures": ["spread"]}, "measures: expected a measure, got 'spread'; did you mean spread_"),
        (
            {"seeds": [1, 1]},
            "seeds: expected a number from 1 to 1,000,000, or a list of different ones below 2^63, got [1, 1]",
        ),
        ({"seeds": 0}, "seeds: expected a number from 1 to 1,000,000"),
        ({"seeds": 10**30}, "seeds: expected a number from 1 to 1,000,000"),
        ({"seeds": True}, "seeds: expected a number, got True"),
        ({"seeds": [True, 2]}, "seeds: expected a number, got [True, 2]"),
        ({"name": ".."}, "name: expected 1 to 64 letters, digits, '.', '_' or '-', not dots alone, got '..'"),
        ({"arms": {"plain": False, "b": {}}}, "arms.plain: expected a valid dictionary, got False"),
        ({"measures": []}, "measures: expected at least 1 item"),
        ({"seeds": [2**63]}, "list of different ones below 2^63, got [9223372036854775808]"),
        ({"until": "09:30"}, "arm 'plain': until: expected a time after 09:30 and up to 16:00, got 09:30"),
        ({"until": 630}, 'until: expected a time as text, got a number; put it in quotes, like "10:30"'),
        ({"population": "smal"}, "smal: expected a YAML file or one of"),
    ],
)
def test_a_wrong_experiment_is_one_clear_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ExperimentError, match=re.escape(message)):
        sample(**changes)


def test_of_several_symbols_one_is_measured_without_profits() -> None:
    several = {"population": "basket", "measures": ["trades"], "arms": {"a": {}, "b": {"groups.0.latency_us": 5}}}
    found = sample(**several, symbol="ETF")
    assert [arm.symbol for arm in found.arms] == [3, 3]
    assert found.settings()["a"] != sample(**several, symbol="BETA").settings()["a"], "other results"
    assert sample(symbol="DEMO").settings() == sample().settings()
    with pytest.raises(
        ExperimentError, match=r"symbol: expected a symbol of the population, got 'EFT'; did you mean ETF"
    ):
        sample(**several, symbol="EFT")
    with pytest.raises(ExperimentError, match=r"measures: expected some without pnl, .* got trades, pnl; leave it out"):
        sample(**{**several, "measures": ["trades", "pnl"]}, symbol="ETF")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"tick_sise": "0.05"}, "expected a setting of the population, got tick_sise; did you mean tick_size?"),
        (
            {"groups.0.latency": 5},
            "expected a setting of the population, got groups.0.latency; did you mean latency_us?",
        ),
        (
            {"groups": {1: {"profile": {"mean_tick": 5}}}},
            "expected a setting of the population, got groups.1.profile.mean_tick; did you mean mean_ticks?",
        ),
        ({"groups.0.colour": 5}, "got groups.0.colour; choose from trader, count"),
        ({"groups.0.latency_us": -1}, "groups.0.latency_us: expected a number greater than 0, got -1; correct it"),
        ({"groups.1.profile.interval_s": 0}, "trader 'value': interval_s: expected a number greater than 0, got 0"),
        ({"groups.0.trader": "nobody"}, "expected a trader of"),
        ({"groups.9.count": 2}, "expected an index from 0 to 2 after groups, got '9'"),
        ({"groups.first.count": 2}, "expected an index from 0 to 2 after groups, got 'first'"),
        ({"open.hour": 5}, "expected a mapping or a list at open, got '09:30'; end the key there"),
        ({"modules.0": "x"}, "expected a list of modules in the population's file to index, got none"),
        ({"symbols": ["A", "B"]}, "symbol: expected one of A, B, got none; give the one that is measured"),
        ({"close": "09:00"}, "close: expected a time after open (09:30), got 09:00"),
    ],
)
def test_a_wrong_arm_is_named_with_its_key(overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ExperimentError, match=re.escape(message)) as caught:
        sample(arms={"plain": {}, "wrong": overrides})
    assert str(caught.value).startswith("sample.yaml: arm 'wrong': ")


def test_the_population_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("{name: mine, groups: [{trader: noise, count: 2}]}")
    file = tmp_path / "experiment.yaml"
    file.write_text("{name: x, population: mine.yaml, arms: {a: {}, b: {'groups.0.count': 3}}}")
    assert [arm.population.traders for arm in load_experiment(str(file), 5, "10:00").arms] == [2, 3]
    with pytest.raises(ExperimentError, match=r"did you mean tick-size\?"):
        load_experiment("ticksize")


@pytest.mark.parametrize("name", builtin_names(EXPERIMENTS))
def test_shipped_experiments_are_valid(name: str) -> None:
    found = load_experiment(name)
    assert found.name == name and len(found.seeds) >= 20


def test_the_documented_file_is_valid(tmp_path: Path) -> None:
    (block,) = blocks("experiments.md", "yaml")
    (tmp_path / "makers.yaml").write_text(block.text)
    found = load_experiment(str(tmp_path / "makers.yaml"))
    assert [arm.population.groups[1].count for arm in found.arms] == [4, 2, 4]
    assert found.arms[2].population.groups[2].latency_us == 5000


def test_arms_with_another_tick_have_the_same_market_in_money() -> None:
    """All that is in ticks scales, so that only the grid differs."""
    base, *others = load_experiment("tick-size").arms
    for arm in others:
        scale = float(arm.population.tick_size) / float(base.population.tick_size)
        value, money = arm.population.value, base.population.value
        assert value.mean_ticks * scale == money.mean_ticks
        assert value.volatility_ticks_per_root_s * scale == pytest.approx(money.volatility_ticks_per_root_s)
        for group, same in zip(arm.population.groups, base.population.groups, strict=True):
            profile, plain = group.parameters(), same.parameters()
            for name in type(profile).model_fields:
                got, expected = getattr(profile, name), getattr(plain, name)
                if name in ("limit_per_s", "opening_levels"):
                    assert (
                        sum(got) == pytest.approx(sum(expected), rel=1e-3)
                        if name == "limit_per_s"
                        else got * scale == expected
                    )
                elif "variance_ticks2" in name:
                    assert got * scale**2 == pytest.approx(expected), name
                elif name in ("risk_aversion", "decay_per_tick", "lots_per_tick"):
                    assert got == pytest.approx(expected * scale), name
                elif "ticks" in name and name != "level_ticks":
                    assert got * scale == pytest.approx(expected), name
                else:
                    assert got == expected, name
