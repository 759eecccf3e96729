"""Accounts, purges, halts with a reason and drop copies on a served exchange, over its sockets and the command line."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.clients.blocking import Exchange, connect
from serl.clients.drop_copy import drop_copy
from serl.clients.errors import NotAnEventFile, Rejected, RequestRejected
from serl.clients.event_file import FIELDS, EventFile
from serl.exchange.account import Account
from serl.exchange.admin import DROP_COPY_ROWS
from serl.exchange.config import load_config, local_operator_token
from serl.exchange.errors import ConfigError
from serl.exchange.records import (
    ALL_SYMBOLS,
    COMMAND,
    EVENT,
    CommandKind,
    EventKind,
    HaltReason,
    Phase,
    Reason,
    Rows,
    TimeInForce,
)
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, Served, free_endpoint, start_exchange

TOKENS = {"tokens": {"alice": "secret", "bob": "word", "root": "key"}, "operators": ["root"]}
FEES = {"maker_ppm": -20, "taker_ppm": 50, "taker_microticks": 3}
SYMBOLS = [{"name": "AMZN", "fees": FEES}, {"name": "GOOG"}]
CONFIG: dict[str, Any] = {"login": TOKENS, "symbols": SYMBOLS}
HALT, RESUME = int(CommandKind.HALT), int(CommandKind.RESUME)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An exchange on which Alice has bought 5 AMZN at 100 from a resting order of Bob."""
    with start_exchange(symbols="", config=CONFIG, folder=tmp_path_factory.mktemp("operations")) as exchange:
        with connect(exchange.endpoint, "bob", "word") as bob, connect(exchange.endpoint, "alice", "secret") as alice:
            bob.sell("AMZN", 5, 100)
            alice.buy("AMZN", 5, 100)
        yield exchange


@pytest.fixture
def alice(served: Served) -> Iterator[Exchange]:
    with connect(served.endpoint, "alice", "secret") as client:
        yield client
        client.mass_cancel()


def ask(served: Served, socket: str, kind: int, *values: Any) -> list[Any]:
    with RawClient(served.endpoint, socket) as raw:
        raw.send(kind, 1, *values)
        return raw.receive()


def serl(served: Served, *words: str) -> str:
    """The output of a serl command."""
    done = subprocess.run(
        [sys.executable, "-m", "serl", *words, "--connect", served.endpoint, "--token", served.operator or "key"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return done.stdout + done.stderr


# -- accounts -----------------------------------------------------------------------------------------------------


def test_an_account_has_its_fees(served: Served) -> None:
    ((symbol, last_ticks, *balances),) = ask(served, "queries", Kind.ACCOUNT, "secret", "alice")[5]
    assert (symbol, last_ticks) == (0, 100)
    assert Account.from_balances(balances) == Account(5, -500, 500, 500 * 50 + 5 * 3)
    ((_, _, *balances),) = ask(served, "queries", Kind.ACCOUNT, "key", "bob")[5]
    assert Account.from_balances(balances) == Account(-5, 500, -500, -500 * 20)


@pytest.mark.parametrize(
    ("token", "name"), [("", "alice"), ("word", "alice"), ("secret", "nobody"), ("", "root"), ("key", "nobody")]
)
def test_only_the_owner_and_operators_can_query_an_account(served: Served, token: str, name: str) -> None:
    for kind in (Kind.ACCOUNT, Kind.FEES):
        assert ask(served, "queries", kind, token, name)[:2] == [97, "login"]


@pytest.mark.parametrize("values", [[], ["key"], ["key", 1], [1, "alice"], [None, "alice"], ["key", "alice", 0]])
def test_an_account_query_takes_two_strings(served: Served, values: list[Any]) -> None:
    for kind in (Kind.ACCOUNT, Kind.FEES):
        assert ask(served, "queries", kind, *values)[:2] == [97, "malformed"]


def test_fees_of_the_next_fills_are_those_of_the_symbol(served: Served) -> None:
    for token, name in (("secret", "alice"), ("key", "bob")):
        assert ask(served, "queries", Kind.FEES, token, name)[5] == [[0, 0, -20, 3, 50, 0, 0], [1, 0, 0, 0, 0, 0, 0]]


def test_the_command_line_prints_an_account(served: Served) -> None:
    line = serl(served, "exchange", "account", "alice").splitlines()[-1]
    assert line.split() == ["AMZN", "5", "-5.00", "0.00", "0.00", "0.00025015"]


def test_fees_that_could_overflow_are_a_configuration_error() -> None:
    most = 2**62 // 1_000_000
    good = load_config(overrides={"symbols": [{"name": "A", "fees": {"auction_microticks": -most}}]})
    assert good.needs_full_rule_book
    for fees in ({"auction_microticks": -most - 1}, {"maker_ppm": 1_000_001}, {"maker": 1}):
        with pytest.raises(ConfigError, match="fees"):
            load_config(overrides={"symbols": [{"name": "A", "fees": fees}]})
        with pytest.raises(ConfigError, match=r"accounts\.a\.fees"):
            load_config(overrides={"symbols": [{"name": "A"}], "accounts": {"a": {"fees": fees}}})


def test_an_empty_token_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"login\.participants\.alice\.token: .* at least 1 character"):
        load_config(overrides={"symbols": [{"name": "A"}], "login": {"tokens": {"alice": ""}}})


# -- purges and halts ---------------------------------------------------------------------------------------------


def test_a_purge_cancels_the_named_orders(served: Served, alice: Exchange) -> None:
    alice.buy("AMZN", 1, 50)
    alice.sell("AMZN", 1, 150)
    alice.buy("GOOG", 1, 50)
    assert ask(served, "admin", Kind.PURGE, "key", "alice", 0, 1)[5] == 1
    assert ask(served, "admin", Kind.PURGE, "key", "bob", ALL_SYMBOLS, 0)[5] == 0
    assert alice.book("AMZN") == ([], [(150, 1, 1)])
    assert serl(served, "exchange", "purge", "alice", "--side", "buy") == "1 orders cancelled\n"
    assert serl(served, "exchange", "purge", "alice", "--symbol", "AMZN") == "1 orders cancelled\n"
    assert alice.book("AMZN") == alice.book("GOOG") == ([], [])
    with drop_copy(served.endpoint, token="key", participant="alice") as copy:
        events = np.concatenate(list(copy.batches()))
    assert events["reason"][-3:].tolist() == [Reason.PURGED] * 3
    assert "no participant 'nobody'" in serl(served, "exchange", "purge", "nobody")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (["secret", "alice", 0, 0], "not_permitted"),
        (["key", "nobody", 0, 0], "login"),
        (["key", "alice", 2, 0], "unknown_symbol"),
        (["key", "alice", 0, 3], "malformed"),
        (["key", "alice", 0, -1], "malformed"),
        (["key", "alice", 0], "malformed"),
    ],
)
def test_invalid_purges(served: Served, values: list[Any], code: str) -> None:
    assert ask(served, "admin", Kind.PURGE, *values)[:2] == [97, code]


def test_a_kill_switch_is_activated_and_lifted(served: Served, alice: Exchange) -> None:
    orders = [alice.buy("AMZN", 1, 50), alice.sell("GOOG", 1, 150)]
    assert serl(served, "exchange", "kill", "alice") == "alice is killed: 2 orders cancelled\n"
    assert alice.book("AMZN") == alice.book("GOOG") == ([], [])
    with pytest.raises(Rejected, match="KILLED"):
        alice.buy("AMZN", 1, 50)
    assert [order.state for order in orders] == ["done", "done"]
    assert ask(served, "admin", Kind.KILL, "key", "alice", 1)[5] == 0, "pressed already"
    assert serl(served, "exchange", "kill", "alice", "--off") == "alice may send orders again\n"
    assert alice.buy("AMZN", 1, 50).state == "open"


@pytest.mark.parametrize(
    ("values", "code"),
    [(["secret", "alice", 1], "not_permitted"), (["key", "nobody", 1], "login"), (["key", "alice", 2], "malformed")],
)
def test_invalid_kills(served: Served, values: list[Any], code: str) -> None:
    assert ask(served, "admin", Kind.KILL, *values)[:2] == [97, code]


def test_a_kill_switch_survives_a_restart(tmp_path: Path) -> None:
    config: dict[str, Any] = {"accounts": {"ann": {"order_lots_max": 5}}}
    options: dict[str, Any] = {"journal": tmp_path / "journal", "config": config, "folder": tmp_path}
    with start_exchange(**options) as exchange, connect(exchange.endpoint, "ann"):
        serl(exchange, "exchange", "kill", "ann")
    with start_exchange(**options) as exchange, connect(exchange.endpoint, "ann") as ann:
        with pytest.raises(Rejected, match="KILLED"):
            ann.buy("AMZN", 1, 50)
        serl(exchange, "exchange", "kill", "ann", "--off")
        assert ann.buy("AMZN", 1, 50).state == "open"


def test_an_operator_purges_over_its_session(served: Served, alice: Exchange) -> None:
    alice.buy("GOOG", 1, 50)
    with RawClient(served.endpoint) as root:
        root.send(64, 1, 1, "root", "key", -1, {})
        welcome = root.receive(96)
        number = number_of(served, "alice")
        root.send(25, welcome[5] + 1, number, ALL_SYMBOLS, 0, 0)
        (event,) = root.receive(80)[2]
    assert (event[0], event[3], event[7]) == (EventKind.MASS_CANCELLED, number, 1)


def test_the_halt_reason_is_published(served: Served, alice: Exchange) -> None:
    alice.subscribe("status", "GOOG")
    assert serl(served, "exchange", "operate", "halt", "--symbol", "GOOG", "--reason", "news") == "halt: done\n"
    assert ask(served, "queries", Kind.STATUS, 1, "secret")[5] == [1, Phase.CONTINUOUS, HaltReason.NEWS]
    assert ask(served, "queries", Kind.STATUS, 0, "secret")[5] == [0, Phase.CONTINUOUS, HaltReason.NONE]
    assert status_of_feed(alice) == [1, Phase.CONTINUOUS, HaltReason.NEWS]
    ask(served, "admin", Kind.OPERATE, "key", RESUME, 1)
    assert ask(served, "queries", Kind.STATUS, 1, "secret")[5] == [0, Phase.CONTINUOUS, HaltReason.NONE]
    assert "expected --reason only with halt" in serl(
        served, "exchange", "operate", "resume", "--symbol", "1", "--reason", "news"
    )


def test_an_interruption_has_its_reason(served: Served) -> None:
    phase = int(CommandKind.PHASE)
    ask(served, "admin", Kind.OPERATE, "key", phase, 1, int(Phase.VOLATILITY))
    assert ask(served, "queries", Kind.STATUS, 1, "secret")[5] == [0, Phase.VOLATILITY, HaltReason.VOLATILITY]
    ask(served, "admin", Kind.OPERATE, "key", phase, 1, int(Phase.CONTINUOUS))
    assert ask(served, "queries", Kind.STATUS, 1, "secret")[5] == [0, Phase.CONTINUOUS, HaltReason.NONE]


@pytest.mark.parametrize("symbol", [[], ["--symbol", "IBM"]])
def test_an_operation_needs_one_of_several_symbols(symbol: list[str], served: Served) -> None:
    got = symbol[1] if symbol else "none"
    assert serl(served, "exchange", "operate", "halt", *symbol) == (
        f"error: --symbol: expected one of AMZN, GOOG, got {got}; give one of them\n"
    )


def test_a_rejected_operation_is_an_error(served: Served) -> None:
    ask(served, "admin", Kind.OPERATE, "key", int(CommandKind.PHASE), 1, int(Phase.PRE_OPEN))
    ask(served, "admin", Kind.OPERATE, "key", HALT, 1)
    refused = ask(served, "admin", Kind.OPERATE, "key", int(CommandKind.UNCROSS), 1)
    assert refused[:2] == [97, "rejected"] and "HALTED" in refused[2]
    assert "HALTED" in serl(served, "exchange", "operate", "continuous", "--symbol", "1")
    ask(served, "admin", Kind.OPERATE, "key", RESUME, 1)
    assert serl(served, "exchange", "operate", "continuous", "--symbol", "1") == "continuous: done\n"


@pytest.mark.parametrize("values", [[HALT, 0, 6], [HALT, 0, -1], [RESUME, 0, 1], [16, 0, 1]])
def test_invalid_flags_of_an_operation(served: Served, values: list[int]) -> None:
    assert ask(served, "admin", Kind.OPERATE, "key", *values)[:2] == [97, "malformed"]


def status_of_feed(client: Exchange) -> list[int]:
    while True:
        item = client.wait(20)
        assert item is not None, "no status message"
        if isinstance(item, tuple) and item[0] == "status/GOOG/":
            return list(item[1][5])


# -- drop copies --------------------------------------------------------------------------------------------------


def full_drop_copy(endpoint: str, after: int = 0, **options: Any) -> Rows:
    with drop_copy(endpoint, token=local_operator_token(endpoint) or "key", after=after, **options) as copy:
        return np.concatenate([np.zeros(0, EVENT), *copy.batches()])


def number_of(served: Served, name: str) -> int:
    return int(full_drop_copy(served.endpoint, participant=name)["participant"][0])


def test_a_drop_copy_has_every_event(served: Served, alice: Exchange) -> None:
    all_events = full_drop_copy(served.endpoint)
    assert all_events["sequence"].tolist() == list(range(1, len(all_events) + 1))
    own = full_drop_copy(served.endpoint, participant="alice")
    assert len(own) and (own == all_events[all_events["participant"] == number_of(served, "alice")]).all()
    assert own["report"].tolist() == list(range(1, len(own) + 1))
    with drop_copy(served.endpoint, token="key", participant="alice", after=len(all_events)) as copy:
        assert list(copy.batches()) == []
        alice.buy("GOOG", 1, 40)
        ((event,),) = copy.batches()
        assert event["kind"] == EventKind.ACCEPTED
        assert copy.sequence == event["sequence"]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (["secret", "", 0], "not_permitted"),
        (["key", "nobody", 0], "login"),
        (["key", "", -1], "replay_gone"),
        (["key", "", 10**9], "replay_gone"),
        (["key", "", 0, "another journal"], "replay_gone"),
        (["key", "", 0, 1], "malformed"),
        (["key", ""], "malformed"),
    ],
)
def test_invalid_drop_copies(served: Served, values: list[Any], code: str) -> None:
    assert ask(served, "admin", Kind.DROP_COPY, *values)[:2] == [97, code]


def test_copies_of_one_journal(served: Served) -> None:
    journal = ask(served, "queries", Kind.STATISTICS, "key")[5]["journal"]
    for kind, values in ((Kind.DROP_COPY, ["", 0]), (Kind.COMMAND_COPY, [0])):
        copied = ask(served, "admin", kind, "key", *values)[5]
        for own in ("", journal):
            assert ask(served, "admin", kind, "key", *values, own)[5] == [*copied, journal]
        assert ask(served, "admin", kind, "key", *values, "another journal")[1] == "replay_gone"


def orders(first_id: int, count: int) -> Rows:
    rows = np.zeros(count, COMMAND)
    rows["kind"], rows["time_in_force"], rows["qty_lots"], rows["price_ticks"] = CommandKind.NEW, TimeInForce.GTC, 1, 90
    rows["command_id"] = first_id + np.arange(count)
    return rows


def test_a_drop_copy_continues_across_segments_and_restarts(tmp_path: Path) -> None:
    """With more events than one reply or one journal file contains; a deleted file is an error."""
    journal = tmp_path / "journal"
    config: dict[str, object] = {"journal": {"segment_rows": 8192}}
    count = DROP_COPY_ROWS + 5000
    with start_exchange(journal=journal, config=config, folder=tmp_path) as exchange:
        with RawClient(exchange.endpoint) as raw:
            raw.login("ann")
            for first in range(1, count, 1000):
                raw.send(Kind.BULK, orders(first, 1000).tobytes())
                while raw.receive(80)[2][-1][2] < first + 999:
                    pass
        before = full_drop_copy(exchange.endpoint)
        assert len(before) >= count
    with start_exchange(journal=journal, config=config, folder=tmp_path) as exchange:
        after = full_drop_copy(exchange.endpoint, after=100)
        assert (after[: len(before) - 100] == before[100:]).all()
        sorted(journal.glob("events-*.rows"))[0].unlink()
        with pytest.raises(RequestRejected, match="no longer stored"):
            full_drop_copy(exchange.endpoint)


# -- in a file ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["events.csv", "events.jsonl"])
def test_the_command_line_appends_to_its_file(served: Served, alice: Exchange, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert "events added" in serl(served, "drop-copy", "--once", "-o", str(path))
    complete = path.read_bytes()
    path.write_bytes(complete[:-7])  # as if killed while writing a line
    alice.buy("GOOG", 1, 41)
    serl(served, "drop-copy", "--once", "-o", str(path))
    assert path.read_bytes().startswith(complete)
    rows = full_drop_copy(served.endpoint)
    assert sequences(path) == rows["sequence"].tolist()
    assert len(path.read_text().splitlines()) == len(rows) + (path.suffix == ".csv")


@pytest.mark.parametrize("name", ["events.csv", "events.jsonl"])
def test_a_file_is_not_continued_with_the_events_of_another_journal(
    served: Served, alice: Exchange, tmp_path: Path, name: str
) -> None:
    """With more events than the file: it went on in the middle of them."""
    path = tmp_path / name
    alice.buy("GOOG", 1, 41)
    with start_exchange() as other, connect(other.endpoint, "bob") as bob:
        bob.buy("AMZN", 1, 90)
        assert "events added" in serl(other, "drop-copy", "--once", "-o", str(path))
    complete = path.read_bytes()
    assert "got another journal" in serl(served, "drop-copy", "--once", "-o", str(path))
    assert path.read_bytes() == complete


def test_a_drop_copy_ends_where_another_journal_begins(tmp_path: Path) -> None:
    """One with more events: the exchange was restarted between two requests."""
    endpoint = free_endpoint()
    options: dict[str, Any] = {"endpoint": endpoint, "symbols": "", "config": CONFIG, "folder": tmp_path}
    with ExitStack() as stack:
        with start_exchange(**options), connect(endpoint, "alice", "secret") as alice:
            alice.buy("AMZN", 1, 90)
            copy = stack.enter_context(drop_copy(endpoint, token="key"))
            assert sum(map(len, copy.batches())) == copy.sequence > 0
        with start_exchange(**options), connect(endpoint, "alice", "secret") as alice:
            alice.buy("AMZN", 1, 90)
            alice.buy("AMZN", 1, 91)
            with pytest.raises(RequestRejected, match="restarted with another journal"):
                copy.next_batch()


def sequences(path: Path) -> list[int]:
    text = path.read_text()
    lines = text[: text.rfind("\n") + 1].splitlines()  # the last line may be incomplete
    if path.suffix == ".csv":
        return [int(line.split(",")[FIELDS.index("sequence")]) for line in lines[1:]]
    return [json.loads(line)["sequence"] for line in lines]


def test_a_drop_copy_follows_until_it_is_stopped(served: Served, alice: Exchange, tmp_path: Path) -> None:
    path = tmp_path / "alice.jsonl"
    words = ["drop-copy", "--participant", "alice", "--every-s", "0.05", "-o", str(path), "--connect", served.endpoint]
    following = subprocess.Popen(
        [sys.executable, "-m", "serl", *words, "--token", "key"], stdout=subprocess.PIPE, text=True
    )
    alice.buy("GOOG", 1, 42)
    expected = full_drop_copy(served.endpoint, participant="alice")["sequence"].tolist()
    deadline = time.monotonic() + 30
    while not path.exists() or sequences(path)[-1:] != expected[-1:]:
        assert time.monotonic() < deadline, "the drop copy does not follow"
        time.sleep(0.05)
    following.send_signal(signal.SIGINT)
    assert f"{len(expected)} events added, up to {expected[-1]}" in following.communicate(timeout=20)[0]
    assert following.returncode == 0
    assert sequences(path) == expected


@pytest.mark.parametrize("text", ["an essay\n", "an essay", "{}\n", "a,b\n1,2\n", "[1]\n", "1\n"])
@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_a_file_with_other_content_is_not_changed(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(NotAnEventFile, match="choose another file"):
        EventFile(path)
    assert path.read_text() == text
