"""QuickFIX, an independent FIX engine, trades through the gateway and checks each of its messages against its data dictionary.

`make interop` installs it, which compiles for minutes; where it is not installed these tests are skipped.
"""

import queue
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateways.fix.client import WAIT_S, timestamp
from tests.gateways.fix.server_fixture import PASSWORD, Gateway

fix = pytest.importorskip("quickfix", reason="QuickFIX is not installed: make interop")
pytestmark = pytest.mark.long

SETTINGS = """
[DEFAULT]
ConnectionType=initiator
ReconnectInterval=1
FileStorePath={folder}
StartTime=00:00:00
EndTime=00:00:00
UseDataDictionary=Y
DataDictionary={dictionary}
SocketConnectHost=127.0.0.1
SocketConnectPort={port}
HeartBtInt=2
ValidateFieldsOutOfOrder=Y
[SESSION]
BeginString=FIX.4.4
SenderCompID={login}
TargetCompID=SERL
"""


class Application(fix.Application):
    """Puts what happens into a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.refused: list[str] = []

    def onCreate(self, session: Any) -> None:
        self.session = session

    def onLogon(self, session: Any) -> None:
        self.events.put(("logon", None))

    def onLogout(self, session: Any) -> None:
        self.events.put(("logout", None))

    def toAdmin(self, message: Any, session: Any) -> None:
        kind = fix.MsgType()
        message.getHeader().getField(kind)
        if kind.getValue() == "A":
            message.setField(fix.Password(PASSWORD))
        if kind.getValue() == "3":
            self.refused.append(str(message))

    def fromAdmin(self, message: Any, session: Any) -> None:
        self.events.put(("admin", str(message)))

    def toApp(self, message: Any, session: Any) -> None:
        return

    def fromApp(self, message: Any, session: Any) -> None:
        self.events.put(("app", str(message)))

    def send(self, kind: str, *pairs: tuple[int, Any], groups: tuple[Any, ...] = ()) -> None:
        """Sends a message through the engine."""
        message = fix.Message()
        message.getHeader().setField(8, "FIX.4.4")
        message.getHeader().setField(35, kind)
        for tag, value in pairs:
            message.setField(tag, str(value))
        for group in groups:
            message.addGroup(group)
        assert fix.Session.sendToTarget(message, self.session)

    def wait(self, kind: str, name: str = "") -> dict[str, str]:
        """The next event of a kind; of messages, the next with this MsgType."""
        while True:
            event, text = self.events.get(timeout=WAIT_S)
            parts: Any = (field.split("=", 1) for field in (text or "").split("\x01") if field)
            fields: dict[str, str] = dict(parts)
            if event == kind and fields.get("35", "") == name:
                return fields


@contextmanager
def initiator(port: int, login: str, folder: Path) -> Iterator[Application]:
    """A logged-on QuickFIX session; its store is in the folder."""
    dictionary = next(Path(sys.prefix).rglob("FIX44.xml"))
    settings = folder / f"{login}.cfg"
    settings.write_text(SETTINGS.format(folder=folder, dictionary=dictionary, port=port, login=login))
    application = Application()
    read = fix.SessionSettings(str(settings))
    engine = fix.SocketInitiator(application, fix.FileStoreFactory(read), read)
    engine.start()
    try:
        application.wait("logon")
        yield application
    finally:
        engine.stop()


def order(application: Application, name: str, side: int, qty: int, price: str | None = None) -> None:
    kind = ((40, 2), (44, price)) if price else ((40, 1),)
    application.send("D", (11, name), (21, 1), (55, "GOOG"), (54, side), (60, timestamp()), (38, qty), (59, 1), *kind)


def test_quickfix_trades(gateway: Gateway, tmp_path: Path) -> None:
    maker, taker = next(gateway.logins), next(gateway.logins)
    with initiator(gateway.port, maker, tmp_path) as alice, initiator(gateway.port, taker, tmp_path) as bob:
        order(alice, "a", 2, 100, "700.00")
        assert alice.wait("app", "8")["150"] == "0"
        order(bob, "b", 1, 30)
        assert bob.wait("app", "8")["150"] == "0"
        fill = bob.wait("app", "8")
        assert (fill["150"], fill["39"], fill["32"], fill["31"]) == ("F", "2", "30", "700.00")
        assert alice.wait("app", "8")["151"] == "70"
        alice.send(
            "G",
            (11, "a2"),
            (41, "a"),
            (21, 1),
            (55, "GOOG"),
            (54, 2),
            (60, timestamp()),
            (38, 90),
            (40, 2),
            (44, "701.00"),
        )
        assert alice.wait("app", "8")["150"] == "5"
        alice.send("F", (11, "a3"), (41, "a2"), (55, "GOOG"), (54, 2), (60, timestamp()))
        assert alice.wait("app", "8")["150"] == "4"
        alice.send("F", (11, "a4"), (41, "a3"), (55, "GOOG"), (54, 2), (60, timestamp()))
        assert alice.wait("app", "9")["102"] == "0"
        alice.send("H", (11, "a"), (55, "GOOG"), (54, 2))
        assert alice.wait("app", "8")["150"] == "I"
        alice.send("q", (11, "q"), (530, 7), (60, timestamp()))
        assert alice.wait("app", "r")["531"] == "7"
        alice.wait("admin", "0")  # a heartbeat
        assert alice.refused == bob.refused == []


def test_quickfix_reads_market_data(gateway: Gateway, tmp_path: Path) -> None:
    with initiator(gateway.port, next(gateway.logins), tmp_path) as alice:
        entry, symbol = fix.Group(267, 269), fix.Group(146, 55)
        symbol.setField(55, "GOOG")
        groups = []
        for kind in "012":
            entry = fix.Group(267, 269)
            entry.setField(269, kind)
            groups.append(entry)
        alice.send("V", (262, "m"), (263, 1), (264, 0), (265, 1), groups=(*groups, symbol))
        assert alice.wait("app", "W")["262"] == "m"
        order(alice, "a", 1, 5, "1.00")
        assert alice.wait("app", "X")["270"] == "1.00"
        order(alice, "b", 2, 5, "1.00")
        assert alice.wait("app", "X")["269"] in "02"
        alice.send("x", (320, "list"), (559, 4))
        assert alice.wait("app", "y")["560"] == "0"
        alice.send("c", (320, "one"), (321, 0), (55, "GOOG"))
        assert alice.wait("app", "d")["323"] == "1"
        alice.send("e", (324, "s"), (263, 0), (55, "GOOG"))
        assert alice.wait("app", "f")["326"] == "17"
        alice.send("q", (11, "q"), (530, 7), (60, timestamp()))
        alice.wait("app", "r")
        assert alice.refused == []


def test_quickfix_recovers_what_it_missed(gateway: Gateway, tmp_path: Path) -> None:
    """Fills while it is away come after its next logon, and a gap in its own store is closed by a ResendRequest."""
    login, other = next(gateway.logins), next(gateway.logins)
    with initiator(gateway.port, login, tmp_path) as alice:
        order(alice, "a", 2, 100, "800.00")
        alice.wait("app", "8")
    with gateway.client(other) as bob:
        bob.logon()
        bob.order("b", 1, 10, "800", symbol="GOOG")
        while bob.receive("8")["150"] != "F":
            pass
    with initiator(gateway.port, login, tmp_path) as alice:
        assert alice.wait("app", "8")["150"] == "F"
    for numbers in tmp_path.glob(f"*{login}*.seqnums"):
        sender, _, _ = numbers.read_text().partition(":")
        numbers.write_text(f"{sender}: {1:>20}")
    with initiator(gateway.port, login, tmp_path) as alice:
        first = alice.wait("app", "8")
        assert (first["43"], first["11"], first["150"]) == ("Y", "a", "0")
        second = alice.wait("app", "8")
        assert (second["43"], second["150"]) == ("Y", "F")
        alice.send("q", (11, "q"), (530, 7), (60, timestamp()))
        alice.wait("app", "r")
        assert alice.refused == []
