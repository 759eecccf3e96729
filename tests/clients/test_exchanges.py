"""Symbols spread over several exchanges: a directory, and clients that follow it."""

import time
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from serl.cli import serl
from serl.clients.errors import ExchangeUnreachable
from serl.clients.exchanges import Exchanges
from serl.clients.session import Report
from serl.exchange.directory import read_directory
from serl.exchange.errors import ConfigError
from tests.server_fixture import free_endpoint, launch, start_exchange


def write(path: Path, symbols: dict[str, list[str]]) -> Path:
    entries = [{"endpoint": endpoint, "symbols": names} for endpoint, names in symbols.items()]
    path.write_text(yaml.safe_dump({"exchanges": entries}))
    return path


def test_a_client_trades_wherever_a_symbol_is(tmp_path: Path) -> None:
    with start_exchange(symbols="AMZN,GOOG") as first, start_exchange(symbols="MSFT") as second:
        path = write(tmp_path / "market.yaml", {first.endpoint: ["AMZN", "GOOG"], second.endpoint: ["MSFT"]})
        with Exchanges(path, "me") as mine, Exchanges(path, "other") as other:
            assert mine["AMZN"] is mine["GOOG"] is not mine["MSFT"]
            orders = [mine[symbol].buy(symbol, 5, 100) for symbol in ("AMZN", "MSFT")]
            for symbol in ("AMZN", "MSFT"):
                other[symbol].sell(symbol, 5, 100)
            found = [mine.wait(10.0) for _ in range(4)]
            reports = [item for _, item in (one for one in found if one) if isinstance(item, Report)]
            assert {report.order_id for report in reports} <= {order.order_id for order in orders}
            while any(order.open_lots for order in orders):
                assert mine.wait(10.0), "the fills of both"
            assert {symbol: balance.position_lots for symbol, balance in mine.account().items()} == {
                "AMZN": 5,
                "MSFT": 5,
            }
            began = time.monotonic()
            while mine.wait(0.0):
                pass
            assert mine.wait(0.3) is None and time.monotonic() - began > 0.25
            with pytest.raises(ConfigError, match="expected a symbol of the directory, got 'TSLA'"):
                mine["TSLA"]
        wrong = write(tmp_path / "wrong.yaml", {first.endpoint: ["AMZN", "TSLA"], second.endpoint: ["MSFT"]})
        with Exchanges(wrong, "me") as mine:
            with pytest.raises(
                ConfigError, match=r"expected TSLA at .*, which trades AMZN, GOOG; correct the directory"
            ):
                mine["AMZN"]
            assert mine["MSFT"]
    with Exchanges(path, "me") as mine, pytest.raises(ExchangeUnreachable):
        mine.connect_all()


def test_an_exchange_takes_its_symbols_from_the_directory(tmp_path: Path) -> None:
    here, there = free_endpoint(), free_endpoint()
    path = write(tmp_path / "market.yaml", {here: ["AMZN", "BTC=0.5"], there: ["MSFT"]})
    served = launch("--directory", str(path), endpoint=here)
    try:
        with Exchanges(path, "me") as mine:
            assert [str(one.tick_size) for one in mine["BTC"].session.instruments.values()] == ["0.01", "0.5"]
    finally:
        served.stop()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "expected exchanges: "), ("exchanges: []", "expected exchanges: "), ("- 1", "expected a map"),
        ("exchanges: [1]", r"exchanges\.0: expected endpoint and symbols"), ("{", "expected YAML"),
        ("exchanges: [{endpoint: tcp://a:5570, symbols: [A], more: 1}]", "expected endpoint and symbols"),
        ("exchanges: [{endpoint: 5570, symbols: [A]}]", r"exchanges\.0\.endpoint: expected an endpoint like tcp"),
        ("exchanges: [{endpoint: tcp://a:70000, symbols: [A]}]", "expected an endpoint like tcp"),
        ("exchanges: [{endpoint: tcp://a:5570, symbols: []}]", r"exchanges\.0\.symbols: expected a list of names"),
        ("exchanges: [{endpoint: tcp://a:5570, symbols: A}]", "expected a list of names"),
        ("exchanges: [{endpoint: tcp://a:5570, symbols: [A, A=0.5]}]", "expected each symbol once, got A, A=0.5"),
        ("exchanges: [{endpoint: tcp://a:5570, symbols: [A]}, {endpoint: tcp://b:5570, symbols: [A]}]", "each symbol once, got 'A' at tcp://a:5570 and tcp://b:5570"),
        ("exchanges: [{endpoint: tcp://a:5570, symbols: [A]}, {endpoint: tcp://a:5573, symbols: [B]}]", "which share tcp://a:5573"),
    ],
)  # fmt: skip
def test_what_is_no_directory_is_an_error_of_one_line(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "market.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=error) as found:
        read_directory(path)
    assert "\n" not in str(found.value) or "YAML" in error


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--directory", "market.yaml"], "expected --directory with --endpoint"),
        (["--directory", "market.yaml", "--endpoint", "tcp://a:5570", "--symbols", "A"], "without --symbols"),
        (["--directory", "market.yaml", "--endpoint", "tcp://b:5570"], "expected an endpoint of the directory"),
        (["--directory", "missing.yaml", "--endpoint", "tcp://a:5570"], "cannot be read"),
    ],
)
def test_options_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "market.yaml").write_text("exchanges: [{endpoint: 'tcp://a:5570', symbols: [A]}]")
    done = CliRunner().invoke(serl, ["exchange", "start", *options])
    assert done.exit_code and error in f"{done.output}{done.exception}"
