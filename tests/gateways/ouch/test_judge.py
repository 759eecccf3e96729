"""The client of PyPI's `nasdaq-protocols`, unmodified, trades through the gateway; the messages it is given are written from the specification."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateways.ouch.client import SECRETS, gateway
from tests.server_fixture import start_exchange

pytest.importorskip("nasdaq_protocols", reason="an independent client; install the extra interop")

from nasdaq_protocols import ouch, soup
from nasdaq_protocols.common import (
    Byte,
    CharAscii,
    Field,
    FixedAsciiString,
    LongBE,
    Record,
    UnsignedIntBE,
    UnsignedLongBE,
    UnsignedShortBE,
)

WAIT_S = 10
TYPES = {"1": CharAscii, "B": Byte, "H": UnsignedShortBE, "I": UnsignedIntBE, "q": LongBE, "Q": UnsignedLongBE}


def fields(text: str) -> list[Any]:
    found = []
    for item in text.split():
        name, code = item.split(":")
        found.append(Field(name, TYPES[code] if code in TYPES else FixedAsciiString(int(code))))
    return found


def message(name: str, letter: str, direction: str, text: str) -> Any:
    """A message class of the judge's own kind."""
    record = type(f"{name}Record", (Record,), {"Fields": fields(text)})

    class Defined(ouch.Message, indicator=ord(letter), direction=direction):
        BodyRecord = record

    Defined.__name__ = name
    return Defined


ORDER = "user_ref:I side:1 quantity:I symbol:8 price:q time_in_force:1 display:1"
EnterOrder = message("EnterOrder", "O", "incoming", f"{ORDER} capacity:1 sweep:1 cross:1 cl_ord_id:14 appendage:H")
ReplaceOrder = message(
    "ReplaceOrder", "U", "incoming",
    "original:I user_ref:I quantity:I price:q time_in_force:1 display:1 sweep:1 cl_ord_id:14 appendage:H",
)  # fmt: skip
CancelOrder = message("CancelOrder", "X", "incoming", "user_ref:I quantity:I")
ACCEPTED = "order_number:Q capacity:1 sweep:1 cross:1 state:1 cl_ord_id:14 appendage:H"
SystemEvent = message("SystemEvent", "S", "outgoing", "time_ns:Q event:1")
Accepted = message("Accepted", "A", "outgoing", f"time_ns:Q {ORDER} {ACCEPTED}")
Replaced = message("Replaced", "U", "outgoing", f"time_ns:Q original:I {ORDER} {ACCEPTED}")
Canceled = message("Canceled", "C", "outgoing", "time_ns:Q user_ref:I quantity:I reason:1")
Executed = message(
    "Executed", "E", "outgoing", "time_ns:Q user_ref:I quantity:I price:q liquidity:1 match:Q appendage:H"
)
Rejected = message("Rejected", "J", "outgoing", "time_ns:Q user_ref:I reason:H cl_ord_id:14")


def filled(kind: Any, **values: Any) -> Any:
    made = kind()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def order(ref: int, side: str, quantity: int, price: int, tif: str = "0") -> Any:
    return filled(
        EnterOrder, user_ref=ref, side=side, quantity=quantity, symbol="AMZN", price=price, time_in_force=tif, display="Y",
        capacity="P", sweep="N", cross="N", cl_ord_id="judge", appendage=0,
    )  # fmt: skip


async def log_in(port: int, user: str, sequence: int = 0) -> Any:
    return await ouch.connect_async(("127.0.0.1", port), user, SECRETS[user], "", sequence, client_heartbeat_interval=1)


async def receive(session: Any, kind: Any, **values: Any) -> Any:
    got = await asyncio.wait_for(session.receive_message(), WAIT_S)
    assert type(got).__name__ == kind.__name__, got
    assert {name: getattr(got, name) for name in values} == values
    return got


async def trade(port: int) -> None:
    alice, bob = await log_in(port, "alice", 1), await log_in(port, "bob", 1)
    for session in (alice, bob):
        await receive(session, SystemEvent, event="S")
    alice.send_message(order(1, "B", 100, 1_000_000))
    await receive(
        alice,
        Accepted,
        user_ref=1,
        side="B",
        quantity=100,
        symbol="AMZN",
        price=1_000_000,
        state="L",
        cl_ord_id="judge",
    )
    alice.send_message(
        filled(
            ReplaceOrder, original=1, user_ref=2, quantity=90, price=1_000_100, time_in_force="0", display="Y", sweep="N",
            cl_ord_id="judge2", appendage=0,
        )
    )  # fmt: skip
    await receive(alice, Replaced, original=1, user_ref=2, quantity=90, price=1_000_100, cl_ord_id="judge2")
    bob.send_message(order(1, "S", 40, 1_000_000, "3"))
    await receive(bob, Accepted, user_ref=1, side="S", time_in_force="3")
    taken = await receive(bob, Executed, user_ref=1, quantity=40, price=1_000_100, liquidity="R")
    await receive(alice, Executed, user_ref=2, quantity=40, price=1_000_100, liquidity="A", match=taken.match)
    alice.send_message(filled(CancelOrder, user_ref=2, quantity=0))
    await receive(alice, Canceled, user_ref=2, quantity=50, reason="U")
    alice.send_message(order(3, "B", 0, 1_000_000))
    await receive(alice, Rejected, user_ref=3, reason=0x13)
    await alice.close()
    again = await log_in(port, "alice", 3)
    await receive(again, Replaced, user_ref=2)
    for kind in (Executed, Canceled, Rejected):
        await receive(again, kind)
    await asyncio.sleep(0)
    await again.close()
    await bob.close()
    with pytest.raises(ConnectionRefusedError):
        await soup.connect_async(("127.0.0.1", port), "alice", "wrong", "")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the judge
def test_an_independent_client_trades_and_replays(tmp_path: Path) -> None:
    with start_exchange(journal=tmp_path / "journal") as exchange, gateway(exchange.endpoint, tmp_path) as started:
        asyncio.run(trade(started.port()))
