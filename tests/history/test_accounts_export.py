"""Export of days with auctions and halts to ITCH and LOBSTER, as far as the formats can represent them."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from serl.exchange.market import Market
from serl.exchange.records import CommandFlag, CommandKind, HaltReason, Phase, Rows, Side, Term, TimeInForce, command
from serl.history.accounts import events_of
from serl.history.cli import day as day_cli
from serl.history.day import Day, write_day
from serl.history.errors import ExportError
from serl.history.importing import import_day
from serl.history.itch.accounts import write_itch_of_accounts
from serl.history.itch.messages import decode
from serl.history.lobster import read_lobster
from serl.history.lobster_export import write_lobster
from serl.history.verify import market_of
from tests.history.accounts_sample import recorded_day

HIDDEN, TERMS = int(CommandFlag.HIDDEN), int(CommandFlag.TERMS)


class Script:
    """Builds a day of commands one nanosecond apart."""

    def __init__(self, *names: str) -> None:
        self.market = Market(list(names))
        self.market.grant_operator(0)
        self.parts: list[tuple[Rows, Rows]] = []

    def do(self, kind: CommandKind, participant: int = 0, **fields: Any) -> int:
        """Adds a command; returns its id."""
        number = len(self.parts) + 1
        row = command(kind, participant=participant, command_id=number, time_ns=number, **fields)
        self.parts.append((row, self.market.submit(row)))
        return number

    def new(self, participant: int, side: Side, lots: int, price: int, **fields: Any) -> int:
        """Adds an order; returns its id."""
        in_force = fields.pop("time_in_force", TimeInForce.GTC)
        fields |= {"side": side, "qty_lots": lots, "price_ticks": price, "time_in_force": in_force}
        return self.do(CommandKind.NEW, participant, **fields)

    def phase(self, phase: Phase, symbol: int = 0) -> None:
        self.do(CommandKind.PHASE, symbol=symbol, flags=phase)

    def day(self) -> Day:
        return recorded_day(self.market, self.parts)


@pytest.fixture
def script() -> Script:
    """An opening auction of 7 lots at 100, with a hidden buyer of 2; a halt; an interruption without a trade; a close of 1 lot."""
    script = Script("A")
    script.phase(Phase.PRE_OPEN)  # 1
    script.new(1, Side.BUY, 5, 101)  # 2: order 1
    script.new(1, Side.BUY, 2, 100, flags=HIDDEN)  # 3: order 2
    script.new(2, Side.SELL, 9, 100)  # 4: order 3
    script.phase(Phase.OPENING)  # 5
    script.phase(Phase.CONTINUOUS)  # 6
    script.do(CommandKind.HALT, flags=HaltReason.NEWS)  # 7
    script.phase(Phase.VOLATILITY)  # 8
    script.do(CommandKind.RESUME)  # 9
    script.phase(Phase.CONTINUOUS)  # 10
    script.phase(Phase.CLOSING)  # 11
    script.new(1, Side.BUY, 1, 100)  # 12: order 4
    script.phase(Phase.CLOSED)  # 13
    return script


def itch_messages(path: Path) -> list[dict[str, Any]]:
    data, messages, at = path.read_bytes(), [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 2], "big")
        messages.append(decode(data[at + 2 : at + 2 + length]))
        at += 2 + length
    return messages


def shown(message: dict[str, Any]) -> tuple[Any, ...]:
    fields = {
        "A": ("order", "side", "shares", "price"), "C": ("order", "shares", "printable", "price"),
        "Q": ("shares", "price", "cross"), "H": ("state", "reason"),
    }  # fmt: skip
    return message["type"], message["time_ns"], *(message[name] for name in fields[message["type"]])


def test_itch_has_executions_crosses_and_states(script: Script, tmp_path: Path) -> None:
    path = tmp_path / "a.itch"
    assert write_itch_of_accounts(script.day(), path) == path.stat().st_size
    begin, directory, *messages, end = itch_messages(path)
    assert (begin["type"], directory["type"], directory["stock"], end["type"]) == ("S", "R", "A", "S")
    assert [shown(message) for message in messages] == [
        ("H", script.day().reference.first_time_ns, "T", ""),
        ("H", 1, "Q", ""),
        ("A", 2, 1, "B", 5, 10_100),
        ("A", 4, 3, "S", 9, 10_000),
        ("H", 5, "Q", ""),
        ("C", 6, 3, 5, "N", 10_000),
        ("C", 6, 1, 5, "N", 10_000),
        ("C", 6, 3, 2, "N", 10_000),
        ("Q", 6, 7, 10_000, "O"),
        ("H", 6, "T", ""),
        ("H", 7, "H", "T1"),
        ("H", 8, "H", "T1"),
        ("H", 9, "Q", "LUDP"),
        ("H", 10, "T", ""),
        ("H", 11, "Q", ""),
        ("A", 12, 4, "B", 1, 10_000),
        ("C", 13, 3, 1, "N", 10_000),
        ("C", 13, 4, 1, "N", 10_000),
        ("Q", 13, 1, 10_000, "C"),
        ("H", 13, "H", ""),
    ]


def test_lobster_has_crosses_and_states(script: Script, tmp_path: Path) -> None:
    write_lobster(script.day(), tmp_path / "a.zip", 2)
    source = read_lobster(tmp_path / "a.zip")
    assert [(time_ns, *message) for time_ns, message in zip(source.time_ns.tolist(), source.messages.tolist(), strict=True)] == [
        (1, 7, 0, 0, 0, -1),
        (2, 1, 1, 5, 10_100, 1),
        (4, 1, 3, 9, 10_000, -1),
        (6, 2, 3, 5, 10_000, -1),
        (6, 3, 1, 5, 10_100, 1),
        (6, 2, 3, 2, 10_000, -1),
        (6, 6, 0, 7, 10_000, -1),
        (6, 7, 0, 0, 1, -1),
        (7, 7, 0, 0, -1, -1),
        (9, 7, 0, 0, 0, -1),
        (10, 7, 0, 0, 1, -1),
        (11, 7, 0, 0, 0, -1),
        (12, 1, 4, 1, 10_000, 1),
        (13, 2, 3, 1, 10_000, -1),
        (13, 3, 4, 1, 10_000, 1),
        (13, 6, 0, 1, 10_000, -1),
        (13, 7, 0, 0, -1, -1),
    ]  # fmt: skip
    assert source.book[-1].tolist()[:4] == [10_000, 1, -9_999_999_999, 0]


def all_orders(seed: int) -> Script:
    """Two symbols, each with auctions, icebergs, hidden and displayed orders; the book is crossed only in auctions."""
    script, random = Script("A", "B"), np.random.default_rng(seed)
    for phase in (Phase.PRE_OPEN, Phase.CONTINUOUS, Phase.INTRADAY, Phase.CONTINUOUS):
        for symbol in range(2):
            script.phase(phase, symbol)
        for draw in random.random((60, 5)).tolist():
            symbol, side, lots, price = (
                int(draw[0] * 2),
                Side(int(draw[1] * 2)),
                1 + int(draw[2] * 30),
                95 + int(draw[3] * 11),
            )
            flags = HIDDEN if draw[4] < 0.2 else 0
            if 0.2 < draw[4] < 0.5:
                script.do(CommandKind.TERM, 1, flags=Term.DISPLAY_LOTS, price_ticks=3)
                flags = TERMS
            order = script.new(1, side, lots, price, symbol=symbol, flags=flags)
            if draw[4] > 0.85:
                script.do(CommandKind.CANCEL, 1, order_id=order)
            elif draw[4] > 0.7:
                script.do(CommandKind.REPLACE, 1, order_id=order, qty_lots=lots + 1, price_ticks=price + 1)
    return script


@pytest.mark.parametrize("seed", range(3))
def test_an_exported_day_ends_with_the_same_displayed_book(seed: int, tmp_path: Path) -> None:
    """Our readers have no auctions: a cross removes what it traded from both sides, and the rest is not crossed."""
    script = all_orders(seed)
    day = script.day()
    write_itch_of_accounts(day, tmp_path / "a.itch.gz")
    for symbol, name in enumerate("AB"):
        write_itch_of_accounts(day, tmp_path / "one.itch.gz", name)
        write_lobster(day, tmp_path / "one.zip", 30, name)
        expected = [side.tolist() for side in script.market.book(symbol)]
        for again in (
            import_day(tmp_path / "a.itch.gz"),
            import_day(tmp_path / "one.itch.gz"),
            import_day(tmp_path / "one.zip"),
        ):
            market, commands = market_of(again)
            market.submit(commands)
            number = [each.name for each in again.reference.symbols].index(name)
            found = [[(row["price_ticks"], row["qty_lots"]) for row in side] for side in market.book(number)]
            assert found == [[(price, lots) for price, lots, _ in side] for side in expected]


def test_crosses_report_the_full_auction_volume(tmp_path: Path) -> None:
    day = all_orders(7).day()
    events = np.concatenate(list(events_of(day)))
    auctions = events[(events["kind"] == 13) & (events["qty_lots"] > 0)]
    write_itch_of_accounts(day, tmp_path / "a.itch")
    crosses = [message for message in itch_messages(tmp_path / "a.itch") if message["type"] == "Q"]
    assert [cross["shares"] for cross in crosses] == auctions["qty_lots"].tolist()
    assert {cross["cross"] for cross in crosses} == {"O", "I"}


def test_the_command_line(script: Script, tmp_path: Path) -> None:
    write_day(script.day(), tmp_path / "day.parquet")

    def export(*words: str) -> str:
        return CliRunner().invoke(day_cli, ["export", str(tmp_path / "day.parquet"), *words]).output

    assert "ITCH 5.0," in export("-o", str(tmp_path / "a.itch.gz"))
    assert gzip.decompress((tmp_path / "a.itch.gz").read_bytes())
    assert "LOBSTER, 17 rows of 3 levels" in export("-o", str(tmp_path / "a.zip"), "--levels", "3", "--symbol", "A")
    with pytest.raises(ExportError, match="--symbol: expected one of A, got B"):
        write_itch_of_accounts(script.day(), tmp_path / "b.itch", "B")
    with pytest.raises(ExportError, match="expected a day with one symbol, got 2"):
        write_lobster(all_orders(1).day(), tmp_path / "b.zip")
