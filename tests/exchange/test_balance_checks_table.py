"""Assets and balance checks of docs/orders.md, case by case, in both implementations.

Symbol 0 trades asset 1 and symbol 1 trades asset 2, both against asset 3, unless a rule says otherwise.
"""

import itertools

import numpy as np
import pytest

from serl.exchange.holdings import Holding
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.records import MICRO, EventKind, Peg, Reason, Rows, Setting
from serl.exchange.terms import Terms
from tests.exchange.generate import PARTICIPANTS, PROFILES, Generator
from tests.exchange.notation import parse_all
from tests.exchange.reference import ReferenceMarket
from tests.exchange.reference.funds import free
from tests.exchange.tables import LIMITS, OPERATOR, AnyMarket, last_reason

CASH = "p9 c1 ACCOUNT o1 BALANCE_CHECKS 1; p9 c2 DEPOSIT o1 qty_lots=3 1000;"
SHARES = "p9 c1 ACCOUNT o1 BALANCE_CHECKS 1; p9 c2 DEPOSIT o1 qty_lots=1 10;"
ASKS = "p2 c1 NEW sell 5@99; p2 c2 NEW sell 5@101;"
OK, REJECTED = Reason.NONE, Reason.LIMIT_BALANCE
REASONS: list[tuple[str, str, Reason]] = [
    ("a buy of all that is free", CASH + "p1 c1 NEW buy 10@100", OK),
    ("one tick x lot more", CASH + "p1 c1 NEW buy 7@143", REJECTED),
    ("open buys reserve", CASH + "p1 c1 NEW buy 9@100; p1 c2 NEW buy 2@51", REJECTED),
    ("what they leave is free", CASH + "p1 c1 NEW buy 9@100; p1 c2 NEW buy 2@50", OK),
    ("in every symbol of that quote asset", CASH + "p1 c1 NEW buy 9@100 s1; p1 c2 NEW buy 2@51", REJECTED),
    ("not in those of another", "p9 c8 RULE QUOTE_ASSET 4 s1;" + CASH + "p9 c9 DEPOSIT o1 qty_lots=4 900; p1 c1 NEW buy 9@100 s1; p1 c2 NEW buy 2@51", OK),
    ("an account without checks", "p9 c1 DEPOSIT o1 qty_lots=3 1; p1 c1 NEW buy 10@100", OK),
    ("nor after they are reset", CASH + "p9 c3 ACCOUNT o1 BALANCE_CHECKS 0; p1 c1 NEW buy 11@100", OK),
    ("orders from before the checks reserve", "p1 c1 NEW buy 9@100;" + CASH + "p1 c2 NEW buy 2@51", REJECTED),
    ("a cancel releases", CASH + "p1 c1 NEW buy 9@100; p1 c2 CANCEL o1; p1 c3 NEW buy 10@100", OK),
    ("a REDUCE releases", CASH + "p1 c1 NEW buy 9@100; p1 c2 REDUCE o1 qty_lots=4; p1 c3 NEW buy 5@100", OK),
    ("and no more", CASH + "p1 c1 NEW buy 9@100; p1 c2 REDUCE o1 qty_lots=4; p1 c3 NEW buy 6@100", REJECTED),
    ("a fill below the limit releases the rest", CASH + "p2 c1 NEW sell 4@98; p1 c1 NEW buy 9@100; p1 c2 NEW buy 1@108", OK),
    ("the example", CASH + "p2 c1 NEW sell 4@98; p1 c1 NEW buy 9@100; p1 c2 NEW buy 1@109", REJECTED),
    ("a sale pays", CASH + "p9 c3 DEPOSIT o1 qty_lots=1 5; p2 c1 NEW buy 5@100; p1 c1 NEW sell 5@100; p1 c2 NEW buy 15@100", OK),
    ("no more than its proceeds", CASH + "p9 c3 DEPOSIT o1 qty_lots=1 5; p2 c1 NEW buy 5@100; p1 c1 NEW sell 5@100; p1 c2 NEW buy 7@215", REJECTED),
    ("a REPLACE to more", CASH + "p1 c1 NEW buy 9@100; p1 c2 REPLACE o1 10@101", REJECTED),
    ("a REPLACE to all", CASH + "p1 c1 NEW buy 9@100; p1 c2 REPLACE o1 8@125", OK),
    ("filled lots of a REPLACE are spent", CASH + "p1 c1 NEW buy 9@100; p2 c1 NEW sell 5@100; p1 c2 REPLACE o1 10@100", OK),
    ("and not free again", CASH + "p1 c1 NEW buy 9@100; p2 c1 NEW sell 5@100; p1 c2 REPLACE o1 10@101", REJECTED),
    ("a REPLACE to less while free is below 0", "p1 c1 NEW buy 20@100;" + CASH + "p1 c2 REPLACE o1 19@100", OK),
    ("a REPLACE to more while free is below 0", "p1 c1 NEW buy 20@100;" + CASH + "p1 c2 REPLACE o1 19@106", REJECTED),
    ("a sell of all", SHARES + "p1 c1 NEW sell 10@100", OK),
    ("a sell of more", SHARES + "p1 c1 NEW sell 11@100", REJECTED),
    ("open sells reserve", SHARES + "p1 c1 NEW sell 6@100; p1 c2 NEW sell 5@120", REJECTED),
    ("a market order to sell", SHARES + "p2 c1 NEW buy 20@100; p1 c1 NEW sell 11@0 market", REJECTED),
    ("of another symbol: another asset", SHARES + "p1 c1 NEW sell 1@100 s1", REJECTED),
    ("two symbols with one base asset", "p9 c8 RULE BASE_ASSET 1 s1;" + SHARES + "p1 c1 NEW sell 6@100 s1; p1 c2 NEW sell 5@100", REJECTED),
    ("short sales with permission", SHARES + "p9 c3 ACCOUNT o1 SHORT_SALES 1; p1 c1 NEW sell 99@100", OK),
    ("but no buy without cash", SHARES + "p9 c3 ACCOUNT o1 SHORT_SALES 1; p1 c1 NEW buy 1@100", REJECTED),
    ("bought lots can be sold", CASH + ASKS + "p1 c1 NEW buy 5@99; p1 c2 NEW sell 5@120", OK),
    ("lots that are only ordered cannot", CASH + "p1 c1 NEW buy 5@99; p1 c2 NEW sell 1@120", REJECTED),
    ("fees by notional", "p9 c8 RULE TAKER_PPM 1000;" + CASH + "p1 c1 NEW buy 10@100", REJECTED),
    ("with room for them", "p9 c8 RULE TAKER_PPM 1000;" + CASH + "p9 c9 DEPOSIT o1 qty_lots=3 1; p1 c1 NEW buy 10@100", OK),
    ("rounded up to a tick x lot", "p9 c8 RULE TAKER_PPM 1;" + CASH + "p1 c1 NEW buy 10@100", REJECTED),
    ("fees per lot, the highest of all", "p9 c8 RULE AUCTION_MICROTICKS 100000;" + CASH + "p9 c9 DEPOSIT o1 qty_lots=3 1; p1 c1 NEW buy 10@100", OK),
    ("they are reserved", "p9 c8 RULE AUCTION_MICROTICKS 100001;" + CASH + "p9 c9 DEPOSIT o1 qty_lots=3 1; p1 c1 NEW buy 10@100", REJECTED),
    ("an account's own fees", "p9 c7 RULE TAKER_PPM 1000; p9 c8 ACCOUNT o1 OWN_FEES 1;" + CASH.replace("c1 ", "c11 ").replace("c2 ", "c12 ") + "p1 c1 NEW buy 10@100", OK),
    ("rebates do not count before they are paid", "p9 c8 RULE TAKER_PPM -1000;" + CASH + "p1 c1 NEW buy 7@143", REJECTED),
    ("paid rebates do", "p9 c8 RULE TAKER_PPM -1000000;" + CASH + "p2 c1 NEW sell 1@1; p1 c1 NEW buy 1@1; p1 c2 NEW buy 10@100", OK),
    ("paid fees are gone", "p9 c8 RULE TAKER_PPM 1000000;" + CASH + "p2 c1 NEW sell 1@1; p1 c1 NEW buy 1@1; p9 c9 RULE TAKER_PPM 0; p1 c2 NEW buy 1@999", REJECTED),
    ("and nothing else", "p9 c8 RULE TAKER_PPM 1000000;" + CASH + "p2 c1 NEW sell 1@1; p1 c1 NEW buy 1@1; p9 c9 RULE TAKER_PPM 0; p1 c2 NEW buy 1@998", OK),
    ("a stop with a limit", CASH + "p1 c2 NEW buy 10@101 stop=90", REJECTED),
    ("a market stop at its stop price", CASH + "p1 c2 NEW buy 10@0 market stop=100", OK),
    ("above", CASH + "p1 c2 NEW buy 10@0 market stop=101", REJECTED),
    ("if touched", CASH + "p1 c2 NEW buy 10@0 market touch=101", REJECTED),
    ("a trailing stop releases as it falls", CASH + "p3 c1 NEW buy 1@100; p2 c1 NEW sell 1@100; p1 c3 NEW buy 9@0 market stop=110 trail=10; p3 c2 NEW buy 1@90; p2 c2 NEW sell 1@90; p1 c4 NEW buy 1@100", OK),
    ("to its present stop price", CASH + "p3 c1 NEW buy 1@100; p2 c1 NEW sell 1@100; p1 c3 NEW buy 9@0 market stop=110 trail=10; p3 c2 NEW buy 1@90; p2 c2 NEW sell 1@90; p1 c4 NEW buy 1@101", REJECTED),
    ("a stop price that is replaced", CASH + "p1 c2 NEW buy 10@0 market stop=90; p1 c4 REPLACE o2 10@0 stop=101", REJECTED),
    ("a peg with a limit", CASH + "p1 c2 NEW buy 10@100 peg=primary", OK),
    ("a peg without one", CASH + "p1 c2 NEW buy 1@0 peg=primary", REJECTED),
    ("an iceberg with its reserve", CASH + "p1 c2 NEW buy 10@101 display=1", REJECTED),
    ("hidden", CASH + "p1 c1 NEW buy 10@101 hidden", REJECTED),
    ("a market order that rests for an auction", CASH + "p9 c9 PHASE OPENING; p1 c1 NEW buy 1@0 market", REJECTED),
    ("a limit order for an auction", CASH + "p9 c9 PHASE OPENING; p1 c1 NEW buy 10@100", OK),
    ("a market order at the best price", CASH + ASKS + "p1 c1 NEW buy 10@0 market", OK),
    ("that it cannot pay", CASH + ASKS + "p1 c1 NEW buy 11@0 market", REJECTED),
    ("where nobody sells", CASH + "p1 c1 NEW buy 11@0 market", OK),
    ("more lots than ticks x lots", CASH.replace("1000", "10") + "p1 c1 NEW buy 11@0 market", REJECTED),
    ("of a linked pair the dearer", SHARES + "p1 c1 NEW sell 10@120; p1 c4 NEW sell 10@0 market stop=90 link=1", OK),
    ("the larger", SHARES + "p1 c1 NEW sell 5@120; p1 c4 NEW sell 10@0 market stop=90 updates=1", OK),
    ("and no more", SHARES + "p1 c1 NEW sell 5@120; p1 c4 NEW sell 11@0 market stop=90 link=1", REJECTED),
    ("linked buys", CASH + "p1 c1 NEW buy 10@90; p1 c4 NEW buy 10@100 stop=99 link=1", OK),
    ("and no more either", CASH + "p1 c1 NEW buy 10@90; p1 c4 NEW buy 10@101 stop=99 link=1", REJECTED),
    ("of linked buys the smaller counts at the lower price", CASH + "p1 c1 NEW buy 10@90; p1 c4 NEW buy 5@110 stop=99 updates=1", OK),
    ("once", CASH + "p1 c1 NEW buy 10@90; p1 c4 NEW buy 5@111 stop=99 updates=1", REJECTED),
    ("linked on the other side: both", CASH + "p9 c3 DEPOSIT o1 qty_lots=1 5; p1 c1 NEW buy 10@100; p1 c3 NEW sell 6@120 link=1", REJECTED),
    ("a REPLACE of a linked order", SHARES + "p1 c1 NEW sell 10@120; p1 c4 NEW sell 4@0 market stop=90 updates=1; p1 c5 NEW sell 1@130", REJECTED),
    ("which releases what nobody shares", SHARES + "p1 c1 NEW sell 10@120; p1 c4 NEW sell 4@0 market stop=90 updates=1; p1 c5 REPLACE o1 5@120; p1 c6 NEW sell 5@130", OK),
    ("a withdrawal of all", CASH + "p9 c3 DEPOSIT o1 qty_lots=3 -1000", OK),
    ("of more", CASH + "p9 c3 DEPOSIT o1 qty_lots=3 -1001", REJECTED),
    ("of what is reserved", CASH + "p1 c1 NEW buy 1@1; p9 c3 DEPOSIT o1 qty_lots=3 -1000", REJECTED),
    ("of what an account without checks does not have", "p9 c3 DEPOSIT o1 qty_lots=3 -1000", OK),
    ("no such asset", "p9 c3 DEPOSIT o1 qty_lots=5 1", Reason.BAD_SETTING),
    ("asset 0", "p9 c3 DEPOSIT o1 qty_lots=0 1", Reason.BAD_SETTING),
    ("no such participant", "p9 c3 DEPOSIT o16 qty_lots=1 1", Reason.BAD_SETTING),
    ("nothing", "p9 c3 DEPOSIT o1 qty_lots=1 0", Reason.BAD_SETTING),
    ("the largest", f"p9 c3 DEPOSIT o1 qty_lots=1 {2**62 - 1}", OK),
    ("more than that", f"p9 c3 DEPOSIT o1 qty_lots=1 {2**62 - 1}; p9 c4 DEPOSIT o1 qty_lots=1 1", Reason.BAD_SETTING),
    ("at once", f"p9 c3 DEPOSIT o1 qty_lots=1 {2**62}", Reason.BAD_SETTING),
    ("the smallest integer", f"p9 c3 DEPOSIT o1 qty_lots=1 {-(2**63)}", Reason.BAD_SETTING),
    ("by no operator", "p1 c3 DEPOSIT o1 qty_lots=1 1", Reason.NOT_PERMITTED),
    ("units of a base asset", "p9 c8 RULE BASE_UNITS 3;" + SHARES + "p1 c1 NEW sell 4@100", REJECTED),
    ("of which it has enough", "p9 c8 RULE BASE_UNITS 3;" + SHARES + "p1 c1 NEW sell 3@100", OK),
    ("units of a quote asset", "p9 c8 RULE QUOTE_UNITS 3;" + CASH + "p1 c1 NEW buy 3@112", REJECTED),
    ("enough of them", "p9 c8 RULE QUOTE_UNITS 3;" + CASH + "p1 c1 NEW buy 3@111", OK),
    ("a base asset that pays for another symbol", "p9 c8 RULE QUOTE_ASSET 1 s1; p9 c9 RULE BASE_UNITS 100;" + SHARES.replace("qty_lots=1 10", "qty_lots=1 1000").replace("c1 ", "c11 ").replace("c2 ", "c12 ") + "p1 c1 NEW sell 6@100; p1 c2 NEW buy 5@81 s1", REJECTED),
    ("of which enough is left", "p9 c8 RULE QUOTE_ASSET 1 s1; p9 c9 RULE BASE_UNITS 100;" + SHARES.replace("qty_lots=1 10", "qty_lots=1 1000").replace("c1 ", "c11 ").replace("c2 ", "c12 ") + "p1 c1 NEW sell 6@100; p1 c2 NEW buy 5@80 s1", OK),
    ("assets while there is a deposit", CASH + "p9 c1 RULE BASE_ASSET 2", Reason.BAD_SETTING),
    ("to what they are", CASH + "p9 c1 RULE BASE_ASSET 0", OK),
    ("after it was withdrawn", CASH + "p9 c1 DEPOSIT o1 qty_lots=3 -1000; p9 c1 RULE BASE_ASSET 2", OK),
    ("assets that change while orders are open", ASKS + "p1 c1 NEW buy 9@99; p9 c1 RULE QUOTE_ASSET 4;" + CASH + "p1 c2 NEW buy 10@100 s1", OK),
    ("too many assets", "p9 c1 RULE QUOTE_ASSET 5", Reason.BAD_SETTING),
    ("the most units", f"p9 c1 RULE QUOTE_UNITS {2**31}", OK),
    ("more units", f"p9 c1 RULE QUOTE_UNITS {2**31 + 1}", Reason.BAD_SETTING),
    ("checks are 0 or 1", "p9 c1 ACCOUNT o1 BALANCE_CHECKS 2", Reason.BAD_SETTING),
    ("permission is 0 or 1", "p9 c1 ACCOUNT o1 SHORT_SALES -1", Reason.BAD_SETTING),
    ("position limits come first", CASH + "p9 c3 ACCOUNT o1 POSITION_LOTS_MAX 5; p1 c1 NEW buy 99@100", Reason.LIMIT_POSITION),
    ("before a post-only order that would cross", CASH + ASKS + "p1 c1 NEW buy 99@100 post", REJECTED),
]  # fmt: skip


def numbered(text: str) -> str:
    """The commands of the operator numbered anew, so that parts can be joined."""
    count, words = itertools.count(1), []
    for line in text.split(";"):
        parts = line.split()
        if parts[:1] == ["p9"]:
            parts[1] = f"c{next(count)}"
        words.append(" ".join(parts))
    return ";".join(words)


@pytest.mark.parametrize(("text", "reason"), [pytest.param(*case[1:], id=case[0]) for case in REASONS])
def test_reasons(market: AnyMarket, text: str, reason: Reason) -> None:
    assert Reason(last_reason(market, numbered(text))) == reason


def fills(events: Rows, participant: int) -> list[tuple[int, int]]:
    """(lots, price) of a participant's fills."""
    own = events[(events["kind"] == EventKind.FILL) & (events["participant"] == participant)]
    return list(zip(own["qty_lots"].tolist(), own["price_ticks"].tolist(), strict=True))


BOUGHT: list[tuple[str, str, list[tuple[int, int]]]] = [
    ("as far as its money reaches for all of it", CASH + ASKS + "p1 c1 NEW buy 10@0 market", [(5, 99)]),
    ("all of it", CASH + "p9 c3 DEPOSIT o1 qty_lots=3 10;" + ASKS + "p1 c1 NEW buy 10@0 market", [(5, 99), (5, 101)]),
    ("fees included", CASH + "p9 c3 DEPOSIT o1 qty_lots=3 10; p9 c4 RULE TAKER_PPM 1;" + ASKS + "p1 c1 NEW buy 10@0 market", [(5, 99)]),
    ("market-to-limit", CASH + ASKS + "p1 c1 NEW buy 10@0 market to_limit gtc", [(5, 99)]),
    ("FOK", CASH + ASKS + "p1 c1 NEW buy 10@0 market fok", []),
    ("a stop that is triggered", CASH + ASKS + "p1 c2 NEW buy 10@0 market stop=99; p3 c1 NEW buy 1@99", [(4, 99)]),
    ("a stop whose linked order reserved the money", CASH + ASKS + "p1 c1 NEW buy 10@90; p1 c4 NEW buy 10@0 market stop=99 link=1; p3 c1 NEW buy 1@99", [(4, 99)]),
    ("a stop whose linked order goes on", CASH + ASKS + "p1 c1 NEW buy 10@90; p1 c4 NEW buy 10@0 market stop=99 updates=1; p3 c1 NEW buy 1@99", [(4, 99)]),
    ("within the collar too", CASH + "p9 c3 ACCOUNT o1 COLLAR_TICKS 1; p3 c1 NEW sell 1@90; p4 c1 NEW buy 1@90; p3 c2 NEW sell 1@91;" + ASKS + "p1 c1 NEW buy 5@0 market", [(1, 91)]),
    ("a sell is not limited", SHARES + "p2 c1 NEW buy 5@100; p2 c2 NEW buy 5@1; p1 c1 NEW sell 10@0 market", [(5, 100), (5, 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), [pytest.param(*case[1:], id=case[0]) for case in BOUGHT])
def test_market_orders(market: AnyMarket, text: str, expected: list[tuple[int, int]]) -> None:
    events = market.submit(parse_all(numbered(text)))
    assert not set(events["reason"].tolist()) & {Reason.LIMIT_BALANCE, Reason.BAD_TERMS}
    assert fills(events, 1) == expected
    market.validate()


def test_a_restart_keeps_assets_deposits_and_reserves(market: AnyMarket) -> None:
    market.submit(parse_all(numbered("p9 c1 RULE QUOTE_UNITS 2;" + CASH + "p1 c1 NEW buy 4@100; p1 c4 NEW buy 4@0 market stop=110 link=1")))  # fmt: skip
    snapshot = market.snapshot()
    for again in (Market.restore(snapshot, 2, limits=LIMITS), ReferenceMarket.restore(snapshot, 2, limits=LIMITS)):
        again.grant_operator(OPERATOR)
        again.validate()
        assert again.state_hash() == market.state_hash()
        assert last_reason(again, "p1 c5 NEW buy 1@61") == Reason.LIMIT_BALANCE
        assert last_reason(again, "p1 c6 NEW buy 1@60") == Reason.NONE
        assert last_reason(again, "p9 c10 DEPOSIT o1 qty_lots=3 -1") == Reason.LIMIT_BALANCE


def test_without_assets_and_deposits_the_hash_is_that_of_earlier_versions() -> None:
    market = Market(2, limits=LIMITS)
    market.grant_operator(OPERATOR)
    market.submit(parse_all("p9 c1 ACCOUNT o1 OWN_FEES 1; p1 c1 NEW sell 5@100; p2 c1 NEW buy 2@100"))
    assert market.state_hash() == "c5a893ef58deeee0b6fc47a92ac06536129a9733bca3470effec37fc0c42e0f8"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_no_balance_falls_below_zero(seed: int) -> None:
    """Random orders of accounts with checks, with fees by notional, in pairs of symbols whose assets are base and quote."""
    market = ReferenceMarket(2, limits=MarketLimits(participants_max=16, window_ticks=128))
    market.grant_operator(OPERATOR)
    setup = "p9 RULE QUOTE_ASSET 1 s1; p9 RULE BASE_UNITS 5; p9 RULE MAKER_PPM 300; p9 RULE TAKER_PPM 70001; p9 RULE MAKER_PPM -7 s1;"
    for participant in range(4):
        setup += f"p9 ACCOUNT o{participant} BALANCE_CHECKS 1;"
        setup += "".join(f"p9 DEPOSIT o{participant} qty_lots={asset} {20 * 30**asset};" for asset in (1, 2, 3))
    lines = [line for line in setup.split(";") if line]
    market.submit(parse_all(";".join(line.replace("p9", f"p9 c{n}") for n, line in enumerate(lines, start=1))))
    random, rejected, traded = np.random.default_rng(seed), 0, 0
    for number in range(1, 1500):
        participant, symbol, lots = int(random.integers(4)), int(random.integers(2)), int(random.integers(1, 30))
        price, stop = (int(each) for each in random.integers(20, 40, 2))
        kind = (f"@{price} gtc", "@0 market", f"@0 market stop={stop}", f"@{price} stop={stop} gtc")[random.integers(4)]
        side = ("buy", "sell")[random.integers(2)]
        events = market.submit(parse_all(f"p{participant} c{10 * number} s{symbol} NEW {side} {lots}{kind}"))
        rejected += int((events["reason"] == Reason.LIMIT_BALANCE).sum())
        traded += int((events["kind"] == EventKind.FILL).sum())
        for who, asset in itertools.product(range(4), (1, 2, 3)):
            assert free(market, who, asset) >= 0, f"participant {who} has spent more of asset {asset} than it had"
    assert rejected > 100 and traded > 50


def test_holdings_are_exact() -> None:
    """Balances and reserves to the millionth; what a check finds free is less by the rounding of each symbol's fees only."""
    limits = MarketLimits(participants_max=16, window_ticks=128)
    market, reference = Market(3, limits=limits), ReferenceMarket(3, limits=limits)
    generator, compared = Generator(8, PROFILES["balances"]), 0
    for each in (market, reference):
        each.grant_operator(0)
    for _ in range(40):
        commands = generator.commands(100)
        generator.observe(reference.submit(commands))
        market.submit(commands)
        for participant in range(PARTICIPANTS):
            for asset, held in market.holdings(participant).items():
                if reference.accounts[participant][Setting.BALANCE_CHECKS]:
                    exact = held.balance - held.reserved
                    assert 0 <= exact - free(reference, participant, asset) * MICRO < 3 * 7 * MICRO
                    compared += held.reserved > 0
    assert compared > 200


def test_balances_of_an_account_without_checks(market: AnyMarket) -> None:
    market.submit(
        parse_all("p9 c1 RULE TAKER_PPM 300; p9 c2 DEPOSIT o1 qty_lots=3 50; p2 c1 NEW sell 5@100; p1 c1 NEW buy 5@100")
    )
    compiled = Market.restore(market.snapshot(), 2, limits=LIMITS)
    assert compiled.holdings(1) == {1: Holding(5 * MICRO, 0), 3: Holding((50 - 500) * MICRO - 500 * 300, 0)}


@pytest.mark.parametrize("price_ticks_max", [500, 50_000])
def test_another_highest_price_counts_again_what_orders_without_one_reserve(price_ticks_max: int) -> None:
    """A restart executes the commands behind a snapshot under the limits of their time, then takes those of now."""
    market = Market(1, limits=MarketLimits(price_ticks_max=1000))
    market.grant_operator(9)
    market.submit(parse_all("p9 c1 DEPOSIT o1 qty_lots=2 20000; p9 c2 ACCOUNT BALANCE_CHECKS o1 1; p2 c1 NEW buy 1@10"))
    peg = market.buy(10, participant=1, terms=Terms(peg=Peg.PRIMARY))
    market.set_limits(MarketLimits(price_ticks_max=price_ticks_max))
    market.validate()
    assert market.holdings(1)[2] == Holding(20_000 * MICRO, 10 * price_ticks_max * MICRO)
    assert market.cancel(peg, participant=1)
    assert market.holdings(1)[2] == Holding(20_000 * MICRO, 0)
