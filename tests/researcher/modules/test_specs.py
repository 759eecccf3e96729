"""Specifications and what is built from them."""

import json
from typing import Any, get_args

import numpy as np
import pytest

from serl.agents.execution.environment.static import recorded_trades
from serl.agents.traders.population import check_population
from serl.agents.traders.simulate import simulate
from serl.researcher.modules import build, checks, specs
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.errors import ModuleError, SpecError
from serl.researcher.modules.example import example
from serl.researcher.validation import recorded

STEP = recorded.load().steps[0]


def built(kind: Kind, **changes: Any) -> Any:
    return build.build(specs.parse(kind, json.dumps(json.loads(example(kind, "spec")) | changes)))


def bounds(schema: Any) -> list[str]:
    """Keywords that a grammar does not enforce."""
    if isinstance(schema, dict):
        found = [
            key
            for key in schema
            if key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "pattern")
        ]
        return found + [each for value in schema.values() for each in bounds(value)]
    return [each for value in schema for each in bounds(value)] if isinstance(schema, list) else []


@pytest.mark.parametrize("kind", Kind)
def test_schemas_are_of_choices_alone(kind: Kind) -> None:
    schema = specs.json_schema(kind)
    assert schema["additionalProperties"] is False
    assert not bounds(schema)
    assert '"number"' not in json.dumps(schema)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Kind.REWARD, "", "JSON"),
        (Kind.REWARD, "Sure! Here is a reward:", "JSON"),
        (Kind.REWARD, '{"base": "none", "terms": []}', "terms: List should have at least 1"),
        (Kind.REWARD, '{"base": "sharpe", "terms": [{}]}', "base: Input should be 'price_advantage'"),
        (
            Kind.AGENT,
            '{"trunk": [63], "policy": [], "value": [], "activation": "tanh", "normalise": "none", "residual": "no"}',
            "trunk.0",
        ),
        (Kind.IMAGINE, '{"block_bars": 3}', "block_bars"),
        (
            Kind.PROFILES,
            '{"groups": [{"trader": "spoofer", "count": 1, "pace": "slow"}], "volatility_percent": 100}',
            "groups.0.trader",
        ),
        (Kind.COMMUNICATE, '{"channels": [], "open": "a"}', "open: Extra inputs"),
    ],
)
def test_errors_say_where_and_what(kind: Kind, text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        specs.parse(kind, text)


def test_rewards_are_sums_of_their_terms() -> None:
    terms = [
        {"feature": "behind", "shape": "absolute", "weight_percent": -50, "when": "every_step"},
        {"feature": "unfilled", "shape": "linear", "weight_percent": -500, "when": "last_step"},
    ]
    for base, of in (
        ("price_advantage", STEP.gain_bps - STEP.last * STEP.vwap_bps),
        ("shortfall", STEP.gain_bps),
        ("none", 0.0),
    ):
        expected = of - 0.5 * np.abs(STEP.behind) - 5 * STEP.unfilled * STEP.last
        np.testing.assert_allclose(built(Kind.REWARD, base=base, terms=terms)(STEP), expected)


def test_agents_have_the_layers_asked_for() -> None:
    network = built(Kind.AGENT, trunk=[32], policy=[32, 16], value=[], residual="yes", normalise="none")(44, 4)
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items() if name.endswith("weight")}
    assert sorted(shapes.values()) == [(1, 32), (4, 16), (16, 32), (32, 32), (32, 44)]
    assert [layer.added for layer in [*network.trunk, *network.policy[:2]]] == [False, True, False]


def test_imagined_bars_are_those_of_the_past() -> None:
    history = recorded.load().history
    same = built(
        Kind.IMAGINE, volatility_percent=100, volume_percent=100, drift_bps=0, mirrored_percent=0, block_bars=5
    )
    scenarios = same(history, np.random.default_rng(1), 50, 12)
    rows = {tuple(row) for row in history}
    assert all(tuple(row) in rows for row in scenarios.reshape(-1, 3))
    starts = [np.flatnonzero((history == row).all(axis=1))[0] for row in scenarios[0, :5]]
    assert np.diff(starts).tolist() == [1, 1, 1, 1]
    wild = built(Kind.IMAGINE, volatility_percent=200, volume_percent=50, drift_bps=5, mirrored_percent=0, block_bars=5)
    changed = wild(history, np.random.default_rng(1), 50, 12)
    np.testing.assert_allclose(changed, scenarios * [2, 2, 0.5] + [5 / 12, 0, 0])


def test_populations_are_in_the_units_of_the_market() -> None:
    statistics = recorded.load().statistics
    groups = [
        {"trader": name, "count": 2, "pace": "fast"}
        for name in ("value", "noise", "momentum", "imbalance", "informed", "institutional")
    ]
    made = checks.population(
        built(Kind.PROFILES, groups=groups, volatility_percent=200)(statistics, np.random.default_rng(0))
    )
    assert made["value"]["volatility_ticks_per_root_s"] == 2 * statistics.volatility_ticks_per_root_s
    assert made["groups"][1]["profile"]["mean_ticks"] == statistics.mid_ticks
    assert [group["trader"] for group in made["groups"]] == [
        "zero_intelligence",
        *(group["trader"] for group in groups),
    ]


def test_messages_are_channels_of_observations() -> None:
    observations = np.zeros((3, len(build.NAMES)))
    observations[:, build.NAMES.index("inventory")] = [-0.3, 0.2, 0.9]
    channels = [
        {"observation": "inventory", "gain": gain, "squash": squash}
        for gain, squash in ((2, "clip"), (-1, "sign"), (1, "tanh"))
    ]
    messages = built(Kind.COMMUNICATE, channels=channels)(observations)
    np.testing.assert_allclose(messages, [[-0.6, 1, np.tanh(-0.3)], [0.4, -1, np.tanh(0.2)], [1, -1, np.tanh(0.9)]])


def test_only_specifications_are_built() -> None:
    with pytest.raises(ModuleError, match="got dict"):
        build.build({"base": "none"})


def test_populations_of_every_trader_make_a_market() -> None:
    kinds = specs.GroupSpec.model_fields["trader"].annotation
    groups = [{"trader": name, "count": 2, "pace": "fast"} for name in get_args(kinds)]
    for some in (groups[:4], groups[4:]):
        values = built(Kind.PROFILES, groups=some)(recorded.load().statistics, np.random.default_rng(0))
        population = check_population(values, "made")
        day = simulate(population, seed=1, until_ns=population.open_ns + 120 * 1_000_000_000)
        assert len(recorded_trades(day)) > 10
