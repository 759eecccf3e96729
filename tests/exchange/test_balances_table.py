"""Positions, cash, cost, profit and fees of docs/orders.md, case by case, in both implementations."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from serl.exchange.account import Account
from serl.exchange.kernel.accounting import long_share, share_of
from serl.exchange.kernel.wide import share_of_wide
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import (
    FEE,
    FEE_MICRO,
    HAS_FEES,
    WIDE_BALANCES,
    CommandKind,
    Reason,
    Rows,
    Rule,
    TimeInForce,
    command,
)
from tests.exchange.notation import parse_all
from tests.exchange.reference import ReferenceMarket
from tests.exchange.tables import LIMITS, AnyMarket, last_reason

MICROTICKS_MAX = 2**62 // 1000
Expected = tuple[int, int, int, int]
"""position_lots, cash_ticks, cost_ticks, realised_ticks."""


def trade(number: int, buyer: int, seller: int, lots: int, price_ticks: int) -> str:
    """A sell order and the buy order that trades with it."""
    return f"p{seller} c{2 * number} NEW sell {lots}@{price_ticks}; p{buyer} c{2 * number + 1} NEW buy {lots}@{price_ticks};"


def trades(*each: tuple[int, int, int, int]) -> str:
    return "".join(trade(number, *values) for number, values in enumerate(each, start=10))


PROFITS: list[tuple[str, str, int, Expected]] = [
    ("opening", trades((1, 2, 2, 100), (1, 3, 3, 110)), 1, (5, -530, 530, 0)),
    ("a short position has a negative cost", trades((1, 2, 2, 100), (1, 2, 3, 110)), 2, (-5, 530, -530, 0)),
    ("closing a part", trades((1, 2, 2, 100), (1, 3, 3, 110), (4, 1, 2, 120)), 1, (3, -290, 318, 28)),
    ("closing all", trades((1, 2, 2, 100), (3, 1, 2, 90)), 1, (0, -20, 0, -20)),
    ("100 by 3: 33 is deducted", trades((1, 2, 2, 33), (1, 2, 1, 34), (3, 1, 1, 50)), 1, (2, -50, 67, 17)),
    ("then 33 of 67", trades((1, 2, 2, 33), (1, 2, 1, 34), (3, 1, 1, 50), (3, 1, 1, 50)), 1, (1, 0, 34, 34)),
    ("then all: nothing is lost", trades((1, 2, 2, 33), (1, 2, 1, 34), (3, 1, 1, 50), (3, 1, 2, 50)), 1, (0, 50, 0, 50)),
    ("short, 100 by 3: rounded toward 0 too", trades((1, 2, 2, 33), (1, 2, 1, 34), (2, 3, 1, 20)), 2, (-2, 80, -67, 13)),
    ("crossing zero from long", trades((1, 2, 2, 100), (3, 1, 5, 90)), 1, (-3, 250, -270, -20)),
    ("crossing zero from short", trades((2, 1, 2, 100), (1, 3, 5, 90)), 1, (3, -250, 270, 20)),
    ("with itself, flat", trades((1, 1, 2, 100)), 1, (0, 0, 0, 0)),
    ("with itself, long: bought first, 194 of 680 deducted", trades((1, 2, 5, 100), (1, 1, 2, 90)), 1, (5, -500, 486, -14)),
    ("a print belongs to no account", trades((1, 2, 2, 100)) + "p9 c1 PRINT 5@120", 1, (2, -200, 200, 0)),
    ("in an auction", "p9 c1 PHASE OPENING; p1 c1 NEW buy 4@102; p2 c1 NEW sell 4@98; p9 c2 PHASE", 1, (4, -392, 392, 0)),
    ("by pro-rata", "p9 c1 RULE MATCHING 1; p1 c1 NEW sell 10@100; p2 c1 NEW sell 20@100; p3 c1 NEW buy 15@100", 2, (-10, 1000, -1000, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "participant", "expected"), [pytest.param(*case[1:], id=case[0]) for case in PROFITS])
def test_profits(market: AnyMarket, text: str, participant: int, expected: Expected) -> None:
    market.submit(parse_all(text))
    market.validate()
    account = market.account(participant)
    assert (account.position_lots, account.cash_ticks, account.cost_ticks, account.realised_ticks) == expected
    assert account.fees_microticks == 0
    worth = account.cash_ticks + 77 * account.position_lots
    assert account.realised_ticks + account.unrealised_ticks(77) == worth


TAKES = "p1 c1 NEW sell 10@101; p2 c1 NEW buy 10@101"
CROSS = "p9 c8 PHASE OPENING; p1 c1 NEW sell 10@101; p2 c1 NEW buy 10@101; p9 c9 PHASE"
SHARES = "p9 c8 RULE MATCHING 1; p1 c1 NEW sell 3@101; p3 c1 NEW sell 6@101; p2 c1 NEW buy 6@101"
SELF = "p1 c1 NEW sell 10@101; p1 c2 NEW buy 10@101"
FEES: list[tuple[str, str, int, int]] = [
    ("no rule, no fee", TAKES, 0, 0),
    ("of the resting order, per lot", "p9 c1 RULE MAKER_MICROTICKS 7;" + TAKES, 70, 0),
    ("of the incoming order, per lot", "p9 c1 RULE TAKER_MICROTICKS 7;" + TAKES, 0, 70),
    ("by the notional", "p9 c1 RULE MAKER_PPM 3; p9 c2 RULE TAKER_PPM 50;" + TAKES, 3030, 50_500),
    ("both", "p9 c1 RULE TAKER_MICROTICKS 300; p9 c2 RULE TAKER_PPM 50;" + TAKES, 0, 53_500),
    ("a rebate", "p9 c1 RULE MAKER_MICROTICKS -200; p9 c2 RULE MAKER_PPM -1; p9 c3 RULE TAKER_PPM 1;" + TAKES, -3010, 1010),
    ("in an auction both pay the same", "p9 c1 RULE AUCTION_PPM 10; p9 c2 RULE AUCTION_MICROTICKS -1; p9 c3 RULE TAKER_PPM 1;" + CROSS, 10_090, 10_090),
    ("not in continuous trading", "p9 c1 RULE AUCTION_PPM 10;" + TAKES, 0, 0),
    ("pro-rata: of an order's share", "p9 c1 RULE MAKER_PPM 10; p9 c2 RULE TAKER_PPM 100;" + SHARES, 2020, 60_600),
    ("with itself: both", "p9 c1 RULE MAKER_PPM -1; p9 c2 RULE TAKER_PPM 3;" + SELF, 2020, 0),
    ("of that symbol only", "p9 c1 RULE MAKER_PPM 10 s1;" + TAKES, 0, 0),
    ("a new fee applies to later trades", TAKES + "; p9 c1 RULE TAKER_PPM 1; p1 c2 NEW sell 1@101; p2 c2 NEW buy 1@101; p9 c2 RULE TAKER_PPM 0; p1 c3 NEW sell 1@101; p2 c3 NEW buy 1@101", 0, 101),
    ("an account's own fee instead of the symbol's", "p9 c1 RULE MAKER_PPM 3; p9 c2 RULE TAKER_PPM 50; p9 c3 ACCOUNT o2 OWN_FEES 1; p9 c4 ACCOUNT o2 TAKER_PPM 7; p9 c5 ACCOUNT o2 MAKER_PPM 9;" + TAKES, 3030, 7070),
    ("also for the resting order, per lot too", "p9 c1 RULE MAKER_PPM 3; p9 c2 ACCOUNT o1 OWN_FEES 1; p9 c3 ACCOUNT o1 MAKER_PPM -1; p9 c4 ACCOUNT o1 MAKER_MICROTICKS 2;" + TAKES, -990, 0),
    ("an own fee of 0 is no fee", "p9 c1 RULE MAKER_PPM 3; p9 c2 RULE TAKER_PPM 50; p9 c3 ACCOUNT o2 OWN_FEES 1;" + TAKES, 3030, 0),
    ("where the symbol has none", "p9 c1 ACCOUNT o2 OWN_FEES 1; p9 c2 ACCOUNT o2 TAKER_PPM 7;" + TAKES, 0, 7070),
    ("in an auction", "p9 c1 RULE AUCTION_PPM 10; p9 c2 ACCOUNT o1 OWN_FEES 1; p9 c3 ACCOUNT o1 AUCTION_PPM -2; p9 c4 ACCOUNT o1 AUCTION_MICROTICKS 1;" + CROSS, -2010, 10_100),
    ("pro-rata", "p9 c1 RULE MAKER_PPM 10; p9 c2 ACCOUNT o2 OWN_FEES 1; p9 c3 ACCOUNT o2 TAKER_PPM 1;" + SHARES, 2020, 606),
    ("own fees do not apply before OWN_FEES is set", "p9 c1 RULE TAKER_PPM 50; p9 c2 ACCOUNT o2 TAKER_PPM 7;" + TAKES, 0, 50_500),
    ("nor after OWN_FEES is reset", "p9 c1 RULE TAKER_PPM 50; p9 c2 ACCOUNT o2 TAKER_PPM 7; p9 c3 ACCOUNT o2 OWN_FEES 1; p9 c4 ACCOUNT o2 OWN_FEES 0;" + TAKES, 0, 50_500),
    ("with itself: both by its own", "p9 c1 RULE MAKER_PPM 10; p9 c2 ACCOUNT o1 OWN_FEES 1; p9 c3 ACCOUNT o1 MAKER_PPM -1; p9 c4 ACCOUNT o1 TAKER_PPM 3;" + SELF, 2020, 0),
    ("the largest of an account", f"p9 c1 ACCOUNT o2 OWN_FEES 1; p9 c2 ACCOUNT o2 TAKER_PPM 1000000; p9 c3 ACCOUNT o2 TAKER_MICROTICKS {MICROTICKS_MAX}; p1 c1 NEW sell 1000@10000; p2 c1 NEW buy 1000@10000", 0, 10**13 + 1000 * MICROTICKS_MAX),
    ("the largest", f"p9 c1 RULE TAKER_PPM 1000000; p9 c2 RULE TAKER_MICROTICKS {MICROTICKS_MAX}; p1 c1 NEW sell 1000@10000; p2 c1 NEW buy 1000@10000", 0, 10**13 + 1000 * MICROTICKS_MAX),
    ("the smallest", f"p9 c1 RULE MAKER_PPM -1000000; p9 c2 RULE MAKER_MICROTICKS {-MICROTICKS_MAX}; p1 c1 NEW sell 1000@10000; p2 c1 NEW buy 1000@10000", -(10**13) - 1000 * MICROTICKS_MAX, 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "first", "second"), [pytest.param(*case[1:], id=case[0]) for case in FEES])
def test_fees(market: AnyMarket, text: str, first: int, second: int) -> None:
    assert not market.submit(parse_all(text))["reason"].any()
    market.validate()
    assert [market.account(participant).fees_microticks for participant in (1, 2)] == [first, second]
    kept = market.snapshot().balances[1:3, 0]
    assert ((kept[:, FEE_MICRO] >= 0) & (kept[:, FEE_MICRO] < 10**6)).all()
    assert (kept[:, FEE] == [first // 10**6, second // 10**6]).all()


def test_fees_are_not_deducted_from_cash(market: AnyMarket) -> None:
    market.submit(parse_all("p9 c1 RULE TAKER_PPM 500000;" + TAKES))
    assert market.account(2) == Account(10, -1010, 1010, 505_000_000)


@pytest.mark.parametrize("rule", ["MAKER_MICROTICKS", "TAKER_MICROTICKS", "AUCTION_MICROTICKS"])
@pytest.mark.parametrize("value", [MICROTICKS_MAX + 1, -MICROTICKS_MAX - 1, 2**63 - 1, -(2**63)])
def test_fees_of_a_lot_that_could_overflow_are_refused(market: AnyMarket, rule: str, value: int) -> None:
    assert last_reason(market, f"p9 c1 RULE {rule} {value}") == Reason.BAD_SETTING


@pytest.mark.parametrize("rule", ["MAKER_PPM", "TAKER_PPM", "AUCTION_PPM"])
@pytest.mark.parametrize("value", [1_000_001, -1_000_001, 2**63 - 1, -(2**63)])
def test_fees_of_more_than_the_notional_are_refused(market: AnyMarket, rule: str, value: int) -> None:
    assert last_reason(market, f"p9 c1 RULE {rule} {value}") == Reason.BAD_SETTING


def test_a_restart_keeps_balances_and_fees(market: AnyMarket) -> None:
    market.submit(parse_all("p9 c1 RULE TAKER_PPM 33;" + trades((1, 2, 2, 33), (1, 2, 1, 34))))
    snapshot = market.snapshot()
    for again in (Market.restore(snapshot, 2, limits=LIMITS), ReferenceMarket.restore(snapshot, 2, limits=LIMITS)):
        again.submit(parse_all("p3 c1 NEW buy 1@50; p1 c90 NEW sell 1@50"))
        assert again.account(1) == Account(2, -50, 67, (100 + 50) * 33)


def test_a_restart_keeps_the_fees_of_an_account_and_the_plain_rules(market: AnyMarket) -> None:
    market.submit(parse_all("p9 c1 ACCOUNT o1 OWN_FEES 1; p9 c2 ACCOUNT o1 MAKER_PPM 3; p9 c3 ACCOUNT o1 TAKER_PPM 50"))
    snapshot = market.snapshot()
    again = Market.restore(snapshot, 2, limits=LIMITS), ReferenceMarket.restore(snapshot, 2, limits=LIMITS)
    for restored in again:
        restored.submit(
            parse_all("p1 c1 NEW sell 4@100; p2 c1 NEW buy 4@100; p1 c2 NEW sell 1@100; p2 c2 NEW buy 1@100 ioc")
        )
        restored.submit(parse_all("p2 c3 NEW buy 1@100; p1 c3 NEW sell 1@100"))
        assert restored.account(1).fees_microticks == 500 * 3 + 100 * 50
        restored.validate()
        assert restored.state_hash() == again[0].state_hash()
    assert not again[0].state.handle[0], "fees of an account need no full rule book"


def test_without_fees_no_account_shows_fees(market: AnyMarket) -> None:
    market.submit(parse_all("p9 c1 RULE TAKER_PPM 33; p9 c2 RULE MAKER_PPM 1; p9 c3 RULE TAKER_PPM 0"))
    assert market.snapshot().symbols[:, HAS_FEES].tolist() == [1, 0]
    market.submit(parse_all("p9 c4 RULE MAKER_PPM 0"))
    assert not market.snapshot().symbols[:, HAS_FEES].any()


AMOUNTS = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 2**30))
WHOLES = st.one_of(st.integers(1, 2**63 - 1), st.integers(1, 2**24))


@pytest.mark.parametrize("whole", [2**61, 2**62 - 1, 2**63 - 1])
def test_the_largest_shares_are_exact(whole: int) -> None:
    for amount, part in [(whole, whole), (whole - 1, whole - 1), (whole // 2, whole - 1), (2**63 - 1, whole // 3)]:
        assert long_share(amount, part, whole) == amount * part // whole, f"{amount} x {part} / {whole}"


@settings(max_examples=500)
@given(AMOUNTS, WHOLES, st.data())
def test_a_share_is_exact(amount: int, whole: int, data: st.DataObject) -> None:
    part = data.draw(st.one_of(st.integers(0, whole), st.sampled_from([0, whole, whole // 2])))
    assert long_share(amount, part, whole) == amount * part // whole
    assert share_of(amount, part, whole) == amount * part // whole


HUGE = MarketLimits(
    qty_lots_max=2**40, price_ticks_max=2**13, orders_open_max=2**20, participants_max=4, window_ticks=128
)


def crossing(buyer: int, seller: int, lots: int, price_ticks: int, command_id: int) -> Rows:
    """An order, and another one that fills it."""
    values = {"qty_lots": lots, "price_ticks": price_ticks, "time_in_force": TimeInForce.GTC, "command_id": command_id}
    sell = command(CommandKind.NEW, side=1, participant=seller, **values)
    values["command_id"] += 1
    return np.concatenate([sell, command(CommandKind.NEW, side=0, participant=buyer, **values)])


def test_cash_cost_and_fees_beyond_64_bits() -> None:
    """Sums are exact in two words, also after a restart, and back again."""
    markets: list[Market | ReferenceMarket] = [Market(1, limits=HUGE), ReferenceMarket(1, limits=HUGE)]
    accounts: list[list[Account]] = []
    rng, number, largest = np.random.default_rng(3), 1, 0
    for market in markets:
        market.grant_operator(3)
        market.submit(command(CommandKind.RULE, flags=Rule.TAKER_PPM, price_ticks=1_000_000, participant=3))
    for step in range(3000):
        if step >= 2700:
            buyer, seller = rng.permutation(4)[:2].tolist()
        else:
            buyer, seller = (1, 2) if step < 1300 or 2000 < step < 2300 else (2, 1)
        lots, price = (
            (2**40, 2**13) if rng.random() < 0.9 else (int(rng.integers(1, 2**40)), int(rng.integers(1, 2**13)))
        )
        for market in markets:
            market.submit(crossing(buyer, seller, lots, price, command_id=number))
        number += 2
        if step in (1200, 1500, 2200):
            snapshots = [market.snapshot() for market in markets]
            assert snapshots[0].digest() == snapshots[1].digest()
            assert snapshots[0].balances.shape[2] == WIDE_BALANCES
            markets = [
                Market.restore(snapshots[1], 1, limits=HUGE),
                ReferenceMarket.restore(snapshots[0], 1, limits=HUGE),
            ]
        if step % 100 == 0:
            accounts = [[market.account(participant) for participant in range(4)] for market in markets]
            assert accounts[0] == accounts[1]
            largest = max(largest, *(min(abs(each.cash_ticks), abs(each.cost_ticks)) for each in accounts[0]))
            for market in markets:
                market.validate()
    assert largest > 2**63 and max(each.fees_microticks for each in accounts[0]) > 2**63 * 10**6


WIDES = st.integers(0, 2**126)


@settings(max_examples=300)
@given(WIDES, st.integers(2, 2**63 - 1), st.data())
def test_a_share_of_two_words_is_exact(amount: int, whole: int, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, whole - 1))
    high = (amount + 2**63) >> 64
    found = share_of_wide(high, amount - (high << 64), part, whole)
    assert (found[0] << 64) + found[1] == amount * part // whole


@settings(max_examples=100)
@example([(1, 2, 2**40, 2**13), (2, 1, 2**40 - 1, 1)])
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 2**40), st.integers(1, 2**13)), max_size=30)
)
def test_huge_trades_and_their_identities(each: list[tuple[int, int, int, int]]) -> None:
    markets = Market(1, limits=HUGE), ReferenceMarket(1, limits=HUGE)
    for number, values in enumerate(each):
        for market in markets:
            market.submit(crossing(*values, command_id=2 * number + 1))
    accounts = [markets[0].account(participant) for participant in range(4)]
    assert accounts == [markets[1].account(participant) for participant in range(4)]
    assert sum(account.position_lots for account in accounts) == sum(account.cash_ticks for account in accounts) == 0
    assert sum(account.realised_ticks + account.unrealised_ticks(4321) for account in accounts) == 0
    for account in accounts:
        assert account.cost_ticks * account.position_lots >= 0, "cost has the sign of the position"
        assert account.position_lots or not account.cost_ticks
