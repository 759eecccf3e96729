"""Orders over FIX on a real exchange: what each request becomes and what is reported of it."""

from typing import Any

import pytest

from tests.gateways.fix.client import Fields, FixClient, timestamp
from tests.gateways.fix.server_fixture import Gateway

CHANGE = {"F": (), "G": ((40, 2),)}


def change(client: FixClient, kind: str, new: str, old: str, *more: tuple[int, Any], side: int = 1, symbol: str = "AMZN") -> None:  # fmt: skip
    """Sends a cancel (F) or replace (G) request."""
    client.send(kind, (11, new), (41, old), (55, symbol), (54, side), (60, timestamp()), *CHANGE[kind], *more)


def has(fields: Fields, **wanted: Any) -> None:
    """The message has these fields, as t150="0"."""
    for name, value in wanted.items():
        assert fields.get(name[1:]) == (None if value is None else str(value)), (name, value, fields)


@pytest.fixture
def alice(gateway: Gateway) -> Any:
    with gateway.client() as client:
        client.logon()
        yield client
        client.send("q", (11, "clean"), (530, 7), (60, timestamp()))
        while client.receive()["35"] != "r":
            pass


@pytest.fixture
def bob(gateway: Gateway) -> Any:
    with gateway.client() as client:
        client.logon()
        yield client
        client.send("q", (11, "clean"), (530, 7), (60, timestamp()))
        while client.receive()["35"] != "r":
            pass


def test_the_life_of_an_order(alice: FixClient, bob: FixClient) -> None:
    alice.order("a", 2, 100, "101.50", (1, "account"))
    new = alice.receive("8")
    has(
        new,
        t150=0,
        t39=0,
        t11="a",
        t55="AMZN",
        t54=2,
        t38=100,
        t44="101.50",
        t151=100,
        t14=0,
        t6=0,
        t1="account",
        t59=0,
    )
    bob.order("b", 1, 30, None)
    has(bob.receive("8"), t150=0, t39=0, t151=30, t44=None)
    has(bob.receive("8"), t150="F", t39=2, t32=30, t31="101.50", t151=0, t14=30, t6="101.50", t851=2)
    fill = alice.receive("8")
    has(fill, t150="F", t39=1, t32=30, t31="101.50", t151=70, t14=30, t6="101.50", t851=1, t37=new["37"], t38=100)
    change(alice, "G", "a2", "a", (38, 130), (44, "101.75"), side=2)
    has(alice.receive("8"), t150=5, t39=1, t11="a2", t41="a", t38=130, t44="101.75", t151=100, t14=30, t37=new["37"])
    bob.order("b2", 1, 20, None)
    has(bob.receive("8"), t150=0)
    has(bob.receive("8"), t150="F", t31="101.75")
    has(alice.receive("8"), t150="F", t39=1, t11="a2", t14=50, t151=80, t6="101.60")  # (30 x 101.50 + 20 x 101.75) / 50
    change(alice, "G", "a3", "a2", (38, 60), (44, "101.75"), side=2)
    has(alice.receive("8"), t150=5, t38=60, t151=10, t11="a3", t41="a2")
    change(alice, "F", "a4", "a3", side=2)
    has(alice.receive("8"), t150=4, t39=4, t11="a4", t41="a3", t151=0, t14=50, t38=60)
    change(alice, "F", "a5", "a4", side=2)
    has(alice.receive("9"), t39=4, t434=1, t102=0, t11="a5", t41="a4", t37=new["37"], t58="UNKNOWN_ORDER")
    alice.send("H", (11, "a"), (55, "AMZN"), (54, 2))
    has(alice.receive("8"), t150="I", t39=4, t14=50, t151=0, t37=new["37"])


def test_a_replace_to_what_is_filled_ends_the_order(alice: FixClient, bob: FixClient) -> None:
    alice.order("a", 2, 10, "101")
    alice.receive("8")
    bob.order("b", 1, 4, "101")
    alice.receive("8")
    change(alice, "G", "a2", "a", (38, 4), (44, "101"), side=2)
    has(alice.receive("8"), t150=5, t39=2, t38=4, t14=4, t151=0, t11="a2")
    bob.receive("8"), bob.receive("8")


def test_changes_may_follow_each_other_without_waiting(alice: FixClient) -> None:
    alice.order("a")
    change(alice, "G", "a2", "a", (38, 20), (44, "99"))
    change(alice, "G", "a3", "a2", (38, 30), (44, "98"))
    change(alice, "F", "a4", "a3")
    found = [alice.receive("8") for _ in range(4)]
    assert [(fields["150"], fields["11"], fields["38"]) for fields in found] == [
        ("0", "a", "10"), ("5", "a2", "20"), ("5", "a3", "30"), ("4", "a4", "30")
    ]  # fmt: skip


def test_a_duplicate_clordid_is_refused(alice: FixClient) -> None:
    alice.order("a")
    alice.receive("8")
    alice.order("a", 2, 3, "200")
    has(alice.receive("8"), t150=8, t39=8, t103=6, t37="NONE")
    change(alice, "F", "a", "a")
    has(alice.receive("9"), t102=6, t434=1, t39=0)
    change(alice, "G", "a", "a", (38, 5), (44, "100"))
    has(alice.receive("9"), t102=6, t434=2)
    alice.send("q", (11, "a"), (530, 7), (60, timestamp()))
    has(alice.receive("r"), t531=0, t532=99)
    alice.send("H", (11, "a"), (55, "AMZN"), (54, 1))
    has(alice.receive("8"), t150="I", t39=0, t38=10)


def test_exec_ids_of_the_gateway_are_unique_over_a_reset(gateway: Gateway) -> None:
    exec_ids = set()
    for _ in range(2):
        with gateway.client() as client:
            client.logon((141, "Y"))
            client.order("a", symbol="NOPE")
            exec_ids.add(client.receive("8")["17"])
            client.logout()
    assert len(exec_ids) == 2


def test_requests_about_orders_that_there_are_not(alice: FixClient) -> None:
    change(alice, "F", "x", "nothing")
    has(alice.receive("9"), t102=1, t37="NONE", t39=8, t11="x", t41="nothing")
    alice.send("H", (11, "nothing"), (55, "AMZN"), (54, 1))
    has(alice.receive("8"), t150="I", t39=8, t103=5)
    alice.order("a")
    alice.receive("8")
    change(alice, "F", "y", "a", side=2)
    has(alice.receive("9"), t102=99)
    change(alice, "F", "z", "a", symbol="GOOG")
    has(alice.receive("9"), t102=99)


Order = tuple[str, dict[str, Any], tuple[tuple[int, Any], ...], dict[str, Any]]
PRICE = {"price": "50"}
ACCEPTED: list[Order] = [
    ("good till cancel", PRICE, ((59, 1),), {"t59": 1}),
    ("immediate or cancel", PRICE, ((59, 3),), {"then": {"t150": 4, "t39": 4, "t58": "IOC_REMAINDER", "t151": 0}}),
    ("fill or kill", PRICE, ((59, 4),), {"then": {"t150": 4, "t58": "FOK_UNFILLABLE"}}),
    ("at the close", PRICE, ((59, 7),), {"t59": 7}),
    ("good till date", PRICE, ((59, 6), (126, "20991231-00:00:00")), {"t59": 6}),
    ("market without a counterparty", {"price": None}, (), {"t40": 1, "then": {"t150": 4, "t58": "MARKET_REMAINDER"}}),
    ("stop", {"price": None}, ((40, 3), (99, "900")), {"t40": 3, "t99": "900", "t44": None}),
    ("stop limit", PRICE, ((40, 4), (99, "900")), {"t40": 4, "t44": "50.00"}),
    ("iceberg", {"price": "50", "qty": 100}, ((111, 10),), {"t38": 100, "t151": 100}),
    ("iceberg by DisplayQty", {"price": "50", "qty": 100}, ((1138, 10),), {"t38": 100, "t151": 100}),
    ("hidden", PRICE, ((111, 0),), {"t151": 10}),
    ("minimum quantity", PRICE, ((110, 5),), {"t151": 10}),
    ("post only", PRICE, ((18, "6"),), {"t151": 10}),
    ("all or none", PRICE, ((18, "G"),), {"t151": 10}),
    ("instructions without an effect", PRICE, ((18, "1 5"), (21, 1)), {"t151": 10}),
    ("primary peg", {"price": None}, ((40, "P"), (18, "R"), (211, "-0.05")), {"t40": "P", "t44": None}),
    ("mid peg with a limit", PRICE, ((40, "P"), (18, "M")), {"t44": "50.00"}),
    ("lots and ticks of another symbol", {"price": "50.05", "qty": "30", "symbol": "BOND"}, (), {"t38": 30, "t44": "50.05"}),
]  # fmt: skip


@pytest.mark.parametrize("name, order, more, wanted", ACCEPTED, ids=[row[0] for row in ACCEPTED])
def test_orders_of_all_kinds(alice: FixClient, name: str, order: dict[str, Any], more: Any, wanted: dict[str, Any]) -> None:  # fmt: skip
    alice.order("o", 1, order.get("qty", 10), order["price"], *more, symbol=order.get("symbol", "GOOG"))
    then = wanted.get("then")
    has(alice.receive("8"), t150=0, t39=0, **{tag: value for tag, value in wanted.items() if tag != "then"})
    if then is not None:
        has(alice.receive("8"), **then)


REFUSED: list[tuple[str, dict[str, Any], tuple[tuple[int, Any], ...], dict[str, Any]]] = [
    ("unknown symbol", {"symbol": "NONE"}, (), {"t103": 1}),
    ("price between two ticks", {"price": "50.001"}, (), {"t103": 99}),
    ("price of another symbol's tick", {"price": "50.01", "symbol": "BOND"}, (), {"t103": 99}),
    ("no whole number of lots", {"qty": 15, "symbol": "BOND"}, (), {"t103": 13}),
    ("quantity 0", {"qty": 0}, (), {"t103": 13}),
    ("a negative quantity", {"qty": -5}, (), {"t103": 13}),
    ("more than the exchange takes", {"qty": "999999999999999999"}, (), {"t103": 13}),
    ("a price beyond all limits", {"price": "999999999999999999"}, (), {"t103": 99}),
    ("half a share", {"qty": "1.5"}, (), {"t103": 13}),
    ("a side that is not traded", {}, ((54, 5),), {"t103": 11}),
    ("an order type that is not traded", {}, ((40, "J"),), {"t103": 11}),
    ("a time in force that is not supported", {}, ((59, 5),), {"t103": 11}),
    ("an instruction that is not supported", {}, ((18, "Z"),), {"t103": 11}),
    ("a post-only order at once", {}, ((18, "6"), (59, 3)), {"t103": 11, "t58": "BAD_FLAGS"}),
    ("an expiry in the past", {}, ((59, 6), (126, "20200101-00:00:00")), {"t103": 11, "t58": "BAD_TERMS"}),
    ("on the open, in continuous trading", {}, ((59, 2),), {"t103": 2, "t58": "WRONG_PHASE"}),
    ("a minimum above the quantity", {}, ((110, 50),), {"t103": 11}),
    ("a peg into the market", {"price": None}, ((40, "P"), (18, "R"), (211, "0.05")), {"t103": 11}),
]  # fmt: skip


@pytest.mark.parametrize("name, order, more, wanted", REFUSED, ids=[row[0] for row in REFUSED])
def test_orders_that_are_refused(alice: FixClient, name: str, order: dict[str, Any], more: Any, wanted: dict[str, Any]) -> None:  # fmt: skip
    alice.order("o", 1, order.get("qty", 10), order.get("price", "50"), *more, symbol=order.get("symbol", "GOOG"))
    has(alice.receive("8"), t150=8, t39=8, t151=0, t14=0, t11="o", **wanted)


MISSING: list[tuple[str, tuple[tuple[int, Any], ...], tuple[int, ...]]] = [
    ("limit price", (), (44,)),
    ("quantity", (), (38,)),
    ("stop price", ((40, 3),), ()),
    ("expiry", ((59, 6),), ()),
    ("what a peg follows", ((40, "P"),), ()),
]


@pytest.mark.parametrize("name, more, drop", MISSING, ids=[row[0] for row in MISSING])
def test_conditionally_required_fields(alice: FixClient, name: str, more: Any, drop: tuple[int, ...]) -> None:
    alice.order("o", 1, 10, "50", *more, drop=drop)
    has(alice.receive("j"), t380=5, t372="D", t379="o", t45=alice.seq - 1)


def test_a_stop_is_triggered(alice: FixClient, bob: FixClient) -> None:
    alice.order("stop", 1, 5, None, (40, 3), (99, "120"), symbol="GOOG")
    alice.receive("8")
    bob.order("offer", 2, 20, "120", symbol="GOOG")
    bob.receive("8")
    bob.order("cross", 1, 1, "120", symbol="GOOG")
    has(alice.receive("8"), t150="D", t58="TRIGGERED", t378=99, t39=0)
    has(alice.receive("8"), t150="F", t39=2, t31="120.00", t14=5)
    for _ in range(4):
        bob.receive("8")


def test_an_iceberg_keeps_its_quantities(alice: FixClient, bob: FixClient) -> None:
    alice.order("ice", 2, 100, "130", (111, 10), symbol="GOOG")
    alice.receive("8")
    bob.order("b", 1, 25, "130", symbol="GOOG")
    fills = [alice.receive("8") for _ in range(3)]
    assert [(fields["32"], fields["151"], fields["14"]) for fields in fills] == [
        ("10", "90", "10"), ("10", "80", "20"), ("5", "75", "25")
    ]  # fmt: skip
    change(alice, "G", "ice2", "ice", (38, 60), (44, "130"), side=2, symbol="GOOG")
    has(alice.receive("8"), t150=5, t151=35, t14=25, t38=60)
    change(alice, "G", "ice3", "ice2", (38, 70), (44, "131"), side=2, symbol="GOOG")
    has(alice.receive("8"), t150=5, t151=45, t14=25, t38=70, t44="131.00")
    change(alice, "F", "ice4", "ice3", side=2, symbol="GOOG")
    has(alice.receive("8"), t150=4, t151=0, t14=25)
    for _ in range(4):
        bob.receive("8")


def test_mass_cancels(alice: FixClient) -> None:
    for name, side, price, symbol in (("a", 1, "10", "AMZN"), ("b", 2, "900", "AMZN"), ("c", 1, "10", "GOOG"), ("d", 1, "11", "GOOG")):  # fmt: skip
        alice.order(name, side, 1, price, symbol=symbol)
        alice.receive("8")

    def cancelled(*pairs: tuple[int, Any]) -> tuple[list[str], Fields]:
        alice.send("q", *pairs, (60, timestamp()))
        names: list[str] = []
        while (fields := alice.receive("8", "r"))["35"] == "8":
            has(fields, t150=4, t39=4, t58="MASS_CANCEL")
            names.append(fields["11"])
        return names, fields

    names, answer = cancelled((11, "q1"), (530, 1), (55, "AMZN"), (54, 2))
    assert names == ["b"]
    has(answer, t531=1, t533=1, t11="q1")
    assert cancelled((11, "q2"), (530, 1), (55, "GOOG"))[0] == ["d", "c"]
    names, answer = cancelled((11, "q3"), (530, 7))
    assert names == ["a"]
    has(answer, t531=7, t533=1)
    assert cancelled((11, "q4"), (530, 7))[1]["533"] == "0"


@pytest.mark.parametrize(
    "pairs, reason",
    [(((530, 3),), "0"), (((530, 1),), "1"), (((530, 1), (55, "NONE")), "1"), (((530, 7), (54, 5)), "99")],
)
def test_mass_cancels_that_are_refused(alice: FixClient, pairs: Any, reason: str) -> None:
    alice.send("q", (11, "q"), *pairs, (60, timestamp()))
    has(alice.receive("r"), t531=0, t532=reason)


def test_a_replace_keeps_the_kind_of_order(alice: FixClient) -> None:
    alice.order("a")
    alice.receive("8")
    for new, more, reason in (("b", ((38, 5), (44, "100"), (40, 1)), "99"), ("c", ((38, 0), (44, "100")), "99"), ("d", ((38, 5), (44, "100.001")), "99")):  # fmt: skip
        pairs = dict(more)
        alice.send(
            "G", (11, new), (41, "a"), (55, "AMZN"), (54, 1), (60, timestamp()), (40, pairs.pop(40, 2)), *pairs.items()
        )
        has(alice.receive("9"), t434=2, t102=reason, t11=new)
    alice.order("stop", 1, 5, None, (40, 3), (99, "900"))
    alice.receive("8")
    alice.send(
        "G", (11, "e"), (41, "stop"), (55, "AMZN"), (54, 1), (60, timestamp()), (40, 3), (38, 4), (99, "900.001")
    )
    has(alice.receive("9"), t434=2, t102=99, t39=0)
    alice.order("peg", 1, 5, "50", (40, "P"), (18, "R"))
    alice.receive("8")
    alice.send("G", (11, "f"), (41, "peg"), (55, "AMZN"), (54, 1), (60, timestamp()), (40, "P"), (38, 4), (44, "50"))
    has(alice.receive("9"), t434=2, t58="NOT_REPLACEABLE", t39=0)


def test_a_stop_gets_another_price_and_quantity(alice: FixClient, bob: FixClient) -> None:
    order = (55, "GOOG"), (54, 1), (60, timestamp()), (40, 3)
    alice.order("stop", 1, 5, None, (40, 3), (99, "900"), symbol="GOOG")
    has(alice.receive("8"), t150=0, t99="900")
    alice.send("G", (11, "fewer"), (41, "stop"), *order, (38, 4))
    has(alice.receive("8"), t150=5, t41="stop", t38=4, t99="900", t44=None)
    alice.send("G", (11, "lower"), (41, "fewer"), *order, (38, 3), (99, "140.00"))
    has(alice.receive("8"), t150=5, t38=3, t151=3, t99="140.00")
    bob.order("offer", 2, 20, "140", symbol="GOOG")
    bob.receive("8")
    bob.order("cross", 1, 1, "140", symbol="GOOG")
    has(alice.receive("8"), t150="D", t58="TRIGGERED")
    has(alice.receive("8"), t150="F", t39=2, t31="140.00", t14=3, t99="140.00")
    for _ in range(4):
        bob.receive("8")


def test_an_order_gets_another_expiry(alice: FixClient) -> None:
    day = "20991231-00:00:00"
    order = (55, "GOOG"), (54, 1), (60, timestamp()), (40, 2), (38, 10), (44, "50"), (59, 6)
    alice.order("o", 1, 10, "50", (59, 6), (126, day), symbol="GOOG")
    alice.receive("8")
    alice.send("G", (11, "soon"), (41, "o"), *order, (126, "20980101-00:00:00"))
    has(alice.receive("8"), t150=5, t11="soon", t151=10)
    alice.order("p", 1, 10, "50", symbol="GOOG")
    alice.receive("8")
    alice.send("G", (11, "none"), (41, "p"), *order, (126, day))
    has(alice.receive("9"), t58="BAD_TERMS", t39=0)


def test_orders_are_cancelled_on_disconnect_where_the_account_says_so(gateway: Gateway) -> None:
    with gateway.client("leaver") as client:
        client.logon()
        client.order("o")
        client.receive("8")
    with gateway.client("leaver", seq=client.seq, expected=client.expected) as again:
        while True:  # until the gateway has noticed the end of the first connection
            again.send("A", (98, 0), (108, 30), (554, again.password), seq=client.seq)
            try:
                answer = again._read()
            except ConnectionResetError:
                answer = None
            if answer is not None:
                break
            again.__init__(gateway.port, "leaver", again.password, seq=client.seq, expected=client.expected)
        again.expected += 1
        has(again.receive("8"), t150=4, t39=4, t58="DISCONNECT", t11="o")


def test_orders_beyond_the_message_rate_are_refused(gateway: Gateway) -> None:
    with gateway.client("throttled") as client:
        client.logon()
        for number in range(12):
            client.order(f"o{number}", 1, 1, "0.01", symbol="MSFT")
        found = [client.receive("8") for _ in range(12)]
        assert sorted(fields["11"] for fields in found) == sorted(f"o{number}" for number in range(12))
        refused = [fields for fields in found if fields["150"] == "8"]
        assert refused and all("messages per second" in fields["58"] and fields["39"] == "8" for fields in refused)
        change(client, "F", "cancel", next(fields["11"] for fields in found if fields["150"] == "0"), symbol="MSFT")
        assert client.receive("8")["150"] == "4"
        client.send("q", (11, "all"), (530, 7), (60, timestamp()))
        while client.receive("8", "r")["35"] != "r":
            pass


def test_six_hundred_orders_at_once(gateway: Gateway) -> None:
    """More than wait for answers of the exchange at once."""
    with gateway.client() as client:
        client.logon()
        orders = [
            client.message(
                "D", (11, f"o{n}"), (55, "MSFT"), (54, 1), (60, timestamp()), (38, 1), (40, 2), (44, "0.01"), (59, 3)
            )
            for n in range(600)
        ]
        client.send_raw(b"".join(orders))
        found = [client.receive("8") for _ in range(1200)]
        assert [fields["11"] for fields in found if fields["150"] == "0"] == [f"o{n}" for n in range(600)]
