"""Settings that an exchange would ignore, or that would end it with a traceback, are errors that name them."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from serl.exchange.cli import exchange
from serl.exchange.config import load_config
from serl.exchange.errors import ConfigError

INF = float("inf")


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ({"lot_multiple": 2_000_000}, r"lot_multiple: expected at most 1000000 \(limits.qty_lots_max\)"),
        ({"tick_table": {2 << 30: 5}}, "tick_table.*price_ticks_max"),
        ({"tick_table": {0: 1 << 70}}, "tick_table.*price_ticks_max"),
        ({"band_high_ticks": 2 << 30}, "band_high_ticks.*price_ticks_max"),
        ({"band_low_ticks": 200, "band_high_ticks": 100}, "band_low_ticks: expected at most band_high_ticks"),
        ({"day": [{"at": "09:30", "phase": "closed"}, {"at": "09:30:00", "phase": "continuous"}]}, "each time once"),
        ({"auction_every_s": 1e-10}, "auction_every_s"),
        ({"auction_every_s": INF}, "finite"),
        ({"volatility_s": 1e300}, "1000000000"),
        ({"tick_size": "Infinity"}, "tick_size"),
        ({"lot_size": "1e999999"}, "lot_size"),
    ],
)
def test_rules_that_the_book_would_refuse(rules: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=f"symbols.*{word}"):
        load_config(None, {"symbols": [{"name": "AMZN", **rules}]})


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"other_accounts": {"order_lots_max": 1 << 70}}, "order_lots_max: expected an integer within"),
        ({"accounts": {"a\nb": {"order_lots_max": 5}}}, "accounts: expected names"),
        ({"limits": {"snapshot_orders_max": 1 << 70}}, "snapshot_orders_max"),
        ({"limits": {"outbound_messages_max": 1 << 40}}, "outbound_messages_max"),
        ({"limits": {"control_messages_per_s_max": INF}}, "control_messages_per_s_max"),
        ({"intervals": {"heartbeat_s": INF}}, "heartbeat_s"),
        ({"intervals": {"drain_messages": 1 << 70}}, "drain_messages"),
        ({"journal": {"flush_s": INF}}, "flush_s"),
        ({"journal": {"retention": {"archive": "old"}}}, "archive: expected size or age"),
        ({"clock": {"held": True}}, "clock.held: expected a scaled clock.*got live"),
        ({"login": {"tokens": ["ann"]}}, "login: expected tokens"),
        ({"login": {"operators": ["ann"]}}, "operators.*'ann'"),
        ({"login": {"tokens": {"ann": "s3cret"}, "operators": ["anne"]}}, "operators.*'anne'"),
        ({"login": {"tokens": {"ann": "s3cret"}, "participants": ["bob"]}}, "login: expected tokens"),
        ({"login": {"tokens": {"ann": "s3cret"}, "operators": [{}]}}, "operators"),
        ({"login": {"participants": {"ann": {"token_file": 5}}}}, "ann: 5: expected a file with a token"),
        ({"login": {"participants": {"ann": {"client_key_file": 5}}}}, "ann: 5: cannot be read"),
    ],
)
def test_other_settings(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word) as raised:
        load_config(None, settings)
    assert "s3cret" not in str(raised.value), "tokens are not shown"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("symbols: [{name: A, day: [{at: 16:00, phase: closed}]}]", "symbols.0.day.0.at: expected a text in quotes"),
        ("clock: {kind: scaled, start: 10:00}", "clock.start: expected a text in quotes"),
        ("symbols: [{name: A, quote: a b}]", r"\.yaml: symbols.0.quote: expected 1 to 32 letters, .* got 'a b'"),
        ("symbols: [{name: 000001}]", "symbols.0.name: expected a text in quotes"),
        ("accounts: {ann: {order_lots_max: 5}}\naccounts: {bob: {order_lots_max: 5}}", "'accounts' twice in one map"),
    ],
)
def test_what_yaml_reads_as_something_else(text: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "exchange.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=word):
        load_config(path)


def test_errors_name_the_file_whose_setting_is_invalid(tmp_path: Path) -> None:
    """But not for a setting that an option replaces."""
    path = tmp_path / "exchange.yaml"
    path.write_text("clock: {kind: lockstep, participants: -1}\nsymbols: [{name: A, tick_size: '0'}]")
    a = [{"name": "A"}]
    with pytest.raises(ConfigError, match=r"exchange\.yaml: clock\.participants"):
        load_config(path, {"symbols": a, "clock": {"kind": "scaled"}})
    with pytest.raises(ConfigError, match=r"^clock\.participants"):
        load_config(path, {"symbols": a, "clock": {"participants": -2}})
    with pytest.raises(ConfigError, match=r"^symbols\.0\.tick_size"):
        load_config(path, {"symbols": [{"name": "A", "tick_size": "-1"}], "clock": {"participants": 1}})


def test_a_map_may_override_what_it_merges(tmp_path: Path) -> None:
    path = tmp_path / "exchange.yaml"
    path.write_text(
        "accounts: {a: &a {order_lots_max: 5}, b: &b {<<: *a, order_lots_max: 6}, c: {<<: *b, collar_ticks: 3}}"
    )
    accounts = load_config(path).accounts
    assert [accounts[name].order_lots_max for name in "abc"] == [5, 6, 6]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--participants", "2"), "--participants: expected a lockstep clock, got live"),
        (("--participants", "2", "--clock", "scaled:2"), "--participants: expected a lockstep clock, got scaled"),
        (("--clock-start", "09:30"), "--clock-start: expected a scaled or lockstep clock, got live"),
        (("--hold",), "clock.held: expected a scaled clock"),
    ],
)
def test_options_of_another_clock(options: tuple[str, ...], word: str) -> None:
    result = CliRunner().invoke(exchange, ["start", *options])
    assert result.exit_code and word in result.output + str(result.exception)
