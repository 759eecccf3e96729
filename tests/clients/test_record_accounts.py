"""A full market day (auctions, a volatility interruption, a halt, every order type) is recorded and replayed: the tape is the same."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.clients.blocking import connect
from serl.clients.errors import Rejected, RequestRejected
from serl.clients.record_accounts import accounts_recorder
from serl.clients.replay import ReplayError
from serl.clients.replay_accounts import create_replayer
from serl.clients.session import Session
from serl.exchange.records import (
    ALL_SYMBOLS,
    COMMAND,
    CommandKind,
    EventKind,
    HaltReason,
    Peg,
    Phase,
    Reason,
    SelfTrade,
    TimeInForce,
)
from serl.exchange.request import request_socket
from serl.exchange.terms import Terms
from serl.exchange.wire import Kind
from serl.history.accounts import events_of, verify_accounts
from serl.history.day import Day, day_writer, read_day
from serl.history.tape import HASH
from tests.history.accounts_sample import random_day
from tests.server_fixture import RawClient, Served, start_exchange

TOKENS = {name: name + "-token" for name in ("alice", "bob", "carol", "root")}
ROOT = TOKENS["root"]
CONFIG: dict[str, Any] = {
    "login": {"tokens": TOKENS, "operators": ["root"]},
    "symbols": [
        {"name": "AMZN", "band_low_ticks": 900, "band_high_ticks": 1100, "band_action": "auction", "volatility_s": 0.4},
        {"name": "GOOG", "matching": "pro-rata", "fees": {"maker_ppm": -20, "taker_ppm": 50}},
    ],
    "accounts": {
        "bob": {"self_trade": "newest", "order_lots_max": 500},
        "carol": {
            "position_lots_max": 40,
            "balance_checks": True,
            "short_sales": True,
            "balances": {"USD": "400", "AMZN": "3"},
        },
    },
}
REPLAY_CONFIG = {**CONFIG, "login": {"tokens": {"history": "past"}, "operators": ["history"]}, "accounts": {}}
"""The exchange that replays it: the same rules, other participants."""
LOGIN = {"tokens": {"history": "h", "mallory": "m"}, "operators": ["history"]}
CANCEL_REASONS = {
    Reason.REQUESTED, Reason.IOC_REMAINDER, Reason.FOK_UNFILLABLE, Reason.MASS_CANCEL, Reason.DISCONNECT, Reason.DAY_END,
    Reason.SELF_TRADE, Reason.EXPIRED, Reason.LINKED, Reason.AUCTION_REMAINDER, Reason.KILL, Reason.PURGED,
}  # fmt: skip
"""Reasons of the cancellations in the day."""


class Trading:
    """Three participants and an operator."""

    def __init__(self, endpoint: str, stack: ExitStack) -> None:
        self.ask = stack.enter_context(request_socket(endpoint, "admin"))
        self.alice, self.bob = (stack.enter_context(connect(endpoint, who, TOKENS[who])) for who in ("alice", "bob"))
        self.carol = connect(endpoint, "carol", TOKENS["carol"], cancel_on_disconnect=True)

    def operate(self, kind: CommandKind, symbol: int = 0, flags: int = 0) -> None:
        self.ask(Kind.OPERATE, ROOT, kind, symbol, flags)

    def day(self) -> None:
        """Trades a day from PRE_OPEN to END_DAY."""
        self.operate(CommandKind.PHASE, 0, Phase.PRE_OPEN)
        self.open()
        self.operate(CommandKind.PHASE, 0, Phase.CONTINUOUS)
        self.trade()
        self.interrupt()
        self.operate(CommandKind.HALT, 0, HaltReason.NEWS)
        with pytest.raises(Rejected):
            self.alice.buy("AMZN", 1, 1000)
        self.operate(CommandKind.RESUME)
        self.operate(CommandKind.PHASE, 0, Phase.CLOSING)
        self.alice.buy("AMZN", 7, time_in_force=TimeInForce.AT_CLOSE)
        self.bob.sell("AMZN", 9, 1000, time_in_force=TimeInForce.AT_CLOSE)
        self.operate(CommandKind.PHASE, 0, Phase.CLOSED)
        self.ask(Kind.PURGE, ROOT, "alice", ALL_SYMBOLS, 1)
        self.ask(Kind.KILL, ROOT, "bob", 1)
        self.carol.sell("GOOG", 3, 1200)
        self.carol.close()
        self.operate(CommandKind.END_DAY)

    def open(self) -> None:
        """Crossed orders for the opening auction, displayed and hidden."""
        alice, bob, carol = self.alice, self.bob, self.carol
        alice.buy("AMZN", 10, 1005)
        alice.buy("AMZN", 20, 1001, terms=Terms(display_lots=6))
        bob.buy("AMZN", 4, 1004, terms=Terms(hidden=True))
        carol.sell("AMZN", 12, 999)
        carol.sell("AMZN", 11, 1000, terms=Terms(hidden=True))
        bob.sell("AMZN", 5, time_in_force=TimeInForce.AT_OPEN)
        bob.sell("AMZN", 5, 1050, time_in_force=TimeInForce.AT_OPEN)
        alice.buy("AMZN", 2, 998, time_in_force=TimeInForce.DAY)

    def trade(self) -> None:
        """Every order type in continuous trading."""
        alice, bob, carol = self.alice, self.bob, self.carol
        first = bob.sell("AMZN", 8, 1010)
        bob.replace(first, 6, 1009)
        bob.reduce(first, 1)
        bob.cancel(bob.sell("AMZN", 3, 1020))
        alice.sell("AMZN", 30, 1006, terms=Terms(display_lots=5))
        carol.buy("AMZN", 12, 1006)
        alice.buy("AMZN", 6, 1003, terms=Terms(hidden=True))
        bob.sell("AMZN", 4, 1003, time_in_force=TimeInForce.IOC)
        bob.sell("AMZN", 400, 1003, time_in_force=TimeInForce.IOC)
        bob.buy("AMZN", 300, 1008, time_in_force=TimeInForce.FOK)
        alice.buy("AMZN", 9, 1002, terms=Terms(all_or_none=True))
        alice.buy("AMZN", 9, 1002, terms=Terms(min_lots=4))
        carol.sell("AMZN", 9, 1001, terms=Terms(stop_ticks=1004))
        carol.sell("AMZN", 2, 1000, terms=Terms(trail_ticks=3))
        alice.buy("AMZN", 3, 1004, terms=Terms(peg=Peg.PRIMARY, offset_ticks=1))
        target = alice.sell("AMZN", 3, 1030)
        alice.sell("AMZN", 3, 980, terms=Terms(stop_ticks=985, link=target.order_id))
        alice.cancel(target)
        bob.sell("AMZN", 2, 1003)
        bob.buy("AMZN", 2, 1003)  # self-trade: his newest order is cancelled
        carol.buy("GOOG", 5, 1000, terms=Terms(self_trade=SelfTrade.OLDEST))
        alice.buy("GOOG", 15, 1000)
        bob.sell("GOOG", 10, 1000)
        carol.sell("GOOG", 3, 990, terms=Terms(reduce_only=True))
        now_ns = int(alice.ask(Kind.STATUS, 0)[4])  # what came before may have taken a while
        alice.buy("AMZN", 1, 950, time_in_force=TimeInForce.GTT, terms=Terms(expire_ns=now_ns + 300_000_000))
        for refused, lots in ((bob, 501), (carol, 100)):
            with pytest.raises(Rejected):
                refused.buy("AMZN", lots, 990)
        alice.mass_cancel("GOOG")
        alice.sell("GOOG", 1, 1500, time_in_force=TimeInForce.DAY)
        bob.sell("GOOG", 1, 1300)

    def interrupt(self) -> None:
        """A trade outside the band interrupts trading; waits until the exchange ends the interruption."""
        alice, bob = self.alice, self.bob
        bob.sell("AMZN", 4, 1101)
        alice.buy("AMZN", 200, 1101)
        while alice.ask(Kind.STATUS, 0)[5][1] == Phase.VOLATILITY:
            alice.wait(0.05)


def record(endpoint: str, path: Path, token: str) -> Day:
    """Records everything up to now."""
    with day_writer(path, accounts=True) as writer, accounts_recorder(endpoint, writer, token) as recorder:
        stop = threading.Event()
        stop.set()
        assert recorder.run(stop, lambda _: None) == "stopped"
        recorder.finish()
    return read_day(path, accounts=True)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Day:
    folder = tmp_path_factory.mktemp("recorded")
    with (
        start_exchange(symbols="", config=CONFIG, folder=folder) as exchange,
        ExitStack() as stack,
    ):
        Trading(exchange.endpoint, stack).day()
        return record(exchange.endpoint, folder / "day.parquet", ROOT)


def test_a_full_day_replays_identically_in_process(day: Day) -> None:
    recorded, replayed = verify_accounts(day)
    assert recorded == replayed == day.reference.parameters[HASH]
    assert day.reference.participants[0] == "exchange" and set(day.reference.participants[1:]) == {
        "alice",
        "bob",
        "carol",
    }
    events = np.concatenate(list(events_of(day)))
    assert not (events["kind"] == EventKind.REJECTED).any(), "the day has no rejected orders"
    assert set(events["reason"][events["kind"] == EventKind.CANCELLED].tolist()) >= CANCEL_REASONS
    phases = events[events["kind"] == EventKind.PHASED]
    assert [Phase(flag).name for flag in phases["flags"]] == [
        "PRE_OPEN", "CONTINUOUS", "VOLATILITY", "CONTINUOUS", "CLOSING", "CLOSED",
    ]  # fmt: skip
    assert (phases["qty_lots"] > 0).tolist() == [False, True, False, True, False, True]
    assert {EventKind.HALTED, EventKind.RESUMED, EventKind.TRIGGERED, EventKind.DAY_ENDED} <= set(
        events["kind"].tolist()
    )
    assert day.commands["time_ns"].min() >= 0 and np.diff(day.commands["time_ns"]).min() >= 0


def test_a_full_day_replays_identically_in_lockstep(day: Day, tmp_path: Path) -> None:
    options: Any = {
        "symbols": "",
        "clock": "lockstep",
        "config": REPLAY_CONFIG,
        "folder": tmp_path,
        "journal": tmp_path / "journal",
    }
    with start_exchange(**options) as exchange:
        replayer = create_replayer(day, exchange.endpoint, token="past")
        progress = replayer.run(lambda _: None)
        replayer.close()
        assert (progress.finished, progress.answered) == (True, len(day))
        again = record(exchange.endpoint, tmp_path / "again.parquet", "past")
        with pytest.raises(ReplayError, match="replayed into this exchange before"):
            create_replayer(day, exchange.endpoint, token="past")
        traded = trades(exchange)
        exchange.kill()
    with start_exchange(**options) as exchange:
        assert trades(exchange) == traded and len(traded) > 10, "after a crash the day's accounts are still operators"
    assert again.reference.parameters[HASH] == day.reference.parameters[HASH]
    assert len(again.reference.participants) == 1 + 1 + 3


def test_balances_are_of_the_same_assets_beside_other_symbols(day: Day, tmp_path: Path) -> None:
    """With more symbols, currencies have other numbers: deposits of USD became deposits of the new symbol."""
    carol, found = f"history/{day.reference.participants.index('carol')}", []
    for number, others in enumerate(([], [{"name": "MSFT"}])):
        (folder := tmp_path / str(number)).mkdir()
        config = {**REPLAY_CONFIG, "symbols": [*CONFIG["symbols"], *others]}
        with (
            start_exchange(symbols="", clock="lockstep", config=config, folder=folder) as exchange,
            request_socket(exchange.endpoint, "queries", token="past") as query,
        ):
            replayer = create_replayer(day, exchange.endpoint, token="past")
            replayer.run(lambda _: None)
            replayer.close()
            found.append(query(Kind.BALANCES, "past", carol)[5])
    assert {asset for asset, *_ in found[0][1]} == {"AMZN", "GOOG", "USD"} and found[1] == found[0]


def test_interruptions_end_as_in_the_recording(tmp_path: Path) -> None:
    """The exchange that replays them ends them after the same `volatility_s`: its PHASE came before the recorded UNCROSS and RULEs, so that a stop traded
    within the old band."""
    rules = {"band_ppm": 50_000, "reference_ticks": 1000, "band_action": "auction"}
    options: dict[str, Any] = {"symbols": "", "clock": "lockstep", "folder": tmp_path}
    with (
        start_exchange(config={"symbols": [{"name": "AMZN", **rules}]}, **options) as exchange,
        connect(exchange.endpoint, "alice") as alice,
    ):
        alice.buy("AMZN", 2, terms=Terms(stop_ticks=1060))
        alice.sell("AMZN", 1, 1070)
        alice.buy("AMZN", 1, 1070)
        alice.sell("AMZN", 9, 1071)
        alice.turn(301 * 10**9)
        recorded = record(exchange.endpoint, tmp_path / "day.parquet", exchange.operator)
    phases = [int(row["flags"]) for row in np.concatenate(list(events_of(recorded))) if row["kind"] == EventKind.PHASED]
    assert phases == [Phase.VOLATILITY, Phase.VOLATILITY, Phase.CONTINUOUS], "the second one is of the UNCROSS"
    config: dict[str, object] = {"symbols": [{"name": "AMZN"}], "limits": {"bulk_rows_max": 1}}
    with start_exchange(config=config, **options) as exchange:
        replayer = create_replayer(recorded, exchange.endpoint)
        replayer.run(lambda _: None)
        replayer.close()
        again = record(exchange.endpoint, tmp_path / "again.parquet", exchange.operator)
    assert again.reference.parameters[HASH] == recorded.reference.parameters[HASH]


def trades(exchange: Served) -> list[Any]:
    with request_socket(exchange.endpoint, "queries", token="past") as query:
        found: list[Any] = query(Kind.TRADES, 0, 50)[5]
    return found


@pytest.mark.long
def test_a_random_day_replays_identically_in_lockstep(tmp_path: Path) -> None:
    """Every kind of command, with thousands in flight."""
    day = random_day("phases", 20_000)
    symbols = ",".join(symbol.name for symbol in day.reference.symbols)
    config: dict[str, object] = {"limits": {"display_divisor_max": day.reference.parameters["display_divisor_max"]}}
    with start_exchange(symbols=symbols, clock="lockstep", config=config, folder=tmp_path) as exchange:
        replayer = create_replayer(day, exchange.endpoint)
        replayer.run(lambda _: None)
        replayer.close()
        again = record(exchange.endpoint, tmp_path / "again.parquet", "")
    assert again.reference.parameters[HASH] == day.reference.parameters[HASH]
    rows, same = (each.commands[each.commands["kind"] != CommandKind.TIME] for each in (day, again))
    assert np.array_equal(rows[["time_ns", "kind"]], same[["time_ns", "kind"]]), (
        "apart from the exchange's own TIME commands"
    )


@pytest.mark.long
def test_the_command_line_records_and_verifies(tmp_path: Path) -> None:
    path = tmp_path / "day.parquet"
    with start_exchange(symbols="", config=CONFIG, folder=tmp_path) as exchange:
        with connect(exchange.endpoint, "alice", TOKENS["alice"]) as alice:
            alice.buy("GOOG", 5, 100)
        arguments = ["record", "--connect", exchange.endpoint, "--accounts", "-o", str(path)]
        assert "expected the token of a participant" in serl(*arguments)
        assert not path.exists()
        process = subprocess.Popen(
            [sys.executable, "-m", "serl", *arguments, "--token", ROOT], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith("recording tcp://")
        with connect(exchange.endpoint, "bob", TOKENS["bob"]) as bob:
            bob.sell("GOOG", 2, 100)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "stopped;" in output and " 2 events, tape " in output, output
    recorded, replayed = serl("day", "verify", str(path)).splitlines()
    assert recorded.removeprefix("tape recorded ") == replayed.removeprefix("tape replayed ")
    head = serl("day", "head", str(path), "-n", "100")
    assert "RULE" in head and "NEW GTC" in head


def serl(*arguments: str) -> str:
    """Runs a serl command; returns its output."""
    done = subprocess.run(
        [sys.executable, "-m", "serl", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


def test_an_exchange_that_cannot_replay_a_day_of_accounts_refuses_it(day: Day, served: Served, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="expected a lockstep clock for a day with participants, got live"):
        create_replayer(day, served.endpoint)
    other = replace(day.reference, parameters=day.reference.parameters | {"qty_lots_max": 7})
    with (
        start_exchange(clock="lockstep") as exchange,
        pytest.raises(ReplayError, match="expected limits: qty_lots_max: 7, as in the recording, got 1000000"),
    ):
        create_replayer(replace(day, reference=other), exchange.endpoint)


def test_an_exchange_older_than_a_limit_takes_a_day(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    set_limits = Session.set_reference_data

    def older(session: Session, symbols: Any, clock: Any, limits: dict[str, Any]) -> None:
        set_limits(
            session, symbols, clock, {name: limit for name, limit in limits.items() if name != "display_divisor_max"}
        )

    monkeypatch.setattr(Session, "set_reference_data", older)
    with start_exchange(clock="lockstep") as exchange:
        create_replayer(day, exchange.endpoint).close()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with start_exchange() as exchange:
        yield exchange


def test_commands_on_behalf_of_others_need_an_operator_and_lockstep(served: Served, tmp_path: Path) -> None:
    rows = np.zeros(2, COMMAND)
    rows["kind"], rows["time_ns"] = CommandKind.TIME, [5, 4]
    with RawClient(served.endpoint) as raw:
        raw.send(Kind.HELLO, 1, 1, "anybody", served.operator, -1, {})
        raw.send(Kind.ON_BEHALF, rows[:1].tobytes())
        assert raw.receive(Kind.ERROR)[1] == "clock"
        raw.send(Kind.ON_BEHALF, b"?")
        assert raw.receive(Kind.ERROR)[1] == "malformed"
    config = {**REPLAY_CONFIG, "login": LOGIN, "limits": {"staged_rows_max": 1024}}
    with (
        start_exchange(symbols="", clock="lockstep", config=config, folder=tmp_path) as exchange,
        RawClient(exchange.endpoint) as raw,
        RawClient(exchange.endpoint) as mallory,
    ):
        mallory.send(Kind.HELLO, 1, 1, "mallory", "m", -1, {})
        mallory.receive(Kind.WELCOME)
        mallory.send(Kind.ON_BEHALF, rows[:1].tobytes())
        assert mallory.receive(Kind.ERROR)[1] == "not_permitted"
        raw.send(Kind.HELLO, 1, 1, "history", "h", -1, {})
        raw.receive(Kind.WELCOME)
        raw.send(Kind.ON_BEHALF, rows.tobytes())
        assert raw.receive(Kind.ERROR)[1] == "promise"
        raw.send(Kind.PROMISE, 5)
        raw.send(Kind.ON_BEHALF, np.repeat(rows[:1], 1000).tobytes())
        raw.send(Kind.ON_BEHALF, np.repeat(rows[:1], 1000).tobytes())
        assert raw.receive(Kind.ERROR)[1] == "throttled"
        raw.send(Kind.ON_BEHALF, np.repeat(rows[:1], 1025).tobytes())
        assert raw.receive(Kind.ERROR)[1] == "too_large"


def test_a_journal_that_begins_on_an_earlier_day_is_refused(tmp_path: Path) -> None:
    with (
        start_exchange(journal=tmp_path / "journal", clock="lockstep") as exchange,
        RawClient(exchange.endpoint) as raw,
    ):
        raw.login("a")
        raw.send(CommandKind.END_DAY, 1, 5)
        raw.send(Kind.PROMISE, 6)
        raw.receive(Kind.REPORTS)
    with (
        start_exchange(journal=tmp_path / "journal") as exchange,
        pytest.raises(RequestRejected, match="begins before the exchange's day"),
    ):
        record(exchange.endpoint, tmp_path / "a.parquet", "")
    assert not (tmp_path / "a.parquet").exists()


def test_command_copies_beyond_the_journal_are_refused(served: Served) -> None:
    with RawClient(served.endpoint, "admin") as raw:
        raw.send(Kind.COMMAND_COPY, 1, served.operator, 1_000_000)
        assert raw.receive(Kind.ERROR)[1] == "replay_gone"
        raw.send(Kind.COMMAND_COPY, 1, served.operator)
        assert raw.receive(Kind.ERROR)[1] == "malformed"
