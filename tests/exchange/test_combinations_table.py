"""Which flags, times in force and terms of a NEW can be combined, and checks that only some orders can fail."""

import pytest

from serl.exchange.records import NO_TERM, CommandFlag, Reason, Term, TimeInForce
from tests.exchange.notation import parse_all, show
from tests.exchange.tables import AnyMarket, last_reason

BEFORE = "p2 c1 NEW sell 50@200; p2 c2 NEW buy 50@50; p1 c1 NEW buy 50@49; p3 c1 NEW sell 20@50; p9 c1 RULE LOT 5; p9 c2 RULE TICK 2"
"""The last trade is at 50, p1 has an order that can be linked, and quantities must be multiples of 5 lots, prices of 2 ticks."""

BAD_FLAGS = """
    post market; post ioc; post fok; post at_open; post at_close; post aon
    post market stop=100; post ioc touch=100; post aon stop=100
    hidden market; hidden ioc; hidden fok; hidden at_open; hidden at_close; hidden aon
    aon market; aon ioc; aon fok; aon at_open; aon at_close
    reduce at_open; reduce at_close; to_limit; to_limit post; market to_limit ioc; market to_limit fok; market to_limit at_open
    market to_limit at_close; market to_limit hidden; market to_limit aon; flags=64; flags=128; flags=192 market"""
BAD_TERMS = """
    terms; gtt; until=5000; until=5000 day; until=5000 ioc; gtt until=1; gtt until=0; gtt until=-5; gtt min=5
    display=0; display=-5; display=7; display=5 hidden; display=5 aon; display=5 min=5; display=5 market; display=5 ioc; display=5 fok
    min=0; min=15; min=7; min=5 aon; min=5 fok; min=5 market; min=5 post; min=5 hidden
    stop=0; stop=10001; stop=101; stop=100 peg=mid; stop=-1
    trail=0; trail=10001; trail=5 peg=mid
    touch=0; touch=10001; touch=101; touch=100 peg=mid; touch=-1; touch=100 stop=100; touch=100 trail=5
    peg=0; peg=3; peg=mid market; peg=mid post; peg=mid hidden; peg=mid aon; peg=mid min=5; peg=mid display=5; peg=mid reduce; peg=mid ioc; peg=mid fok
    offset=1; peg=mid offset=-1; peg=mid offset=10001; offset=0 stop=100
    updates=2; updates=0; updates=77; link=1 updates=1; link=2; link=0; link=77; stp=-1; stp=5
    at_open display=5; at_open min=5; at_open stop=100; at_open peg=mid; at_close trail=5; at_close until=5000; at_close min=5; at_open touch=100; at_close touch=100"""
FINE = """
    gtc; gtc post; ioc; fok; market; market ioc; market fok; market gtc; market to_limit; market to_limit gtc; market to_limit gtt until=5000; market to_limit stop=100; market to_limit touch=100; market to_limit stp=none
    hidden; hidden post; hidden gtc; aon; aon gtc
    gtt until=5000; gtt until=5000 post; gtt until=5000 hidden; gtt until=5000 market; display=5; display=5 post; display=500; display=5 gtt until=5000
    min=5; min=10; min=5 ioc; min=5 gtt until=5000; stop=100; stop=100 market; stop=100 ioc; stop=100 fok; stop=100 aon; stop=100 hidden; stop=100 min=5
    stop=100 post; trail=5 post; touch=100 post; stop=100 display=5; stop=100 trail=10000; trail=1; trail=5 market; trail=5 gtt until=5000
    touch=100; touch=50; touch=200 market; touch=100 ioc; touch=100 fok; touch=100 aon; touch=100 hidden; touch=100 min=5; touch=100 gtt until=5000
    touch=100 display=5; touch=100 link=1; touch=100 stp=none
    peg=primary; peg=mid; peg=mid offset=0; peg=primary offset=10000; peg=mid gtt until=5000; link=1; link=1 ioc; updates=1; updates=1 fok; at_close updates=1; stp=none; stp=decrement
    at_close; at_close market; at_close stp=oldest; at_close link=1"""
BAD_QTY = "7@100; 7@100 ioc; 7@0 market; 1005@100; 4@100 min=5"
BAD_PRICE = "10@101; 10@101 post; 10@0; 10@-2; 10@10002; 10@100 market; 10@99 peg=mid; 10@-2 peg=mid"


def rows(text: str) -> list[str]:
    return [row.strip() for row in text.replace("\n", ";").split(";") if row.strip()]


def order(words: str) -> str:
    price = 0 if "market" in words else 100
    return f"{BEFORE}; p1 c50 NEW buy 10@{price} {words}"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        *((Reason.BAD_FLAGS, words) for words in rows(BAD_FLAGS)),
        *((Reason.BAD_TERMS, words) for words in rows(BAD_TERMS)),
        *((Reason.NONE, words) for words in rows(FINE)),
    ],
)
def test_flags_and_terms(market: AnyMarket, reason: Reason, words: str) -> None:
    assert Reason(last_reason(market, order(words))) == reason


@pytest.mark.parametrize(
    ("reason", "words"),
    [*((Reason.BAD_QTY, words) for words in rows(BAD_QTY)), *((Reason.BAD_PRICE, words) for words in rows(BAD_PRICE))],
)
def test_quantity_and_price_of_a_new_order(market: AnyMarket, reason: Reason, words: str) -> None:
    expected = Reason.BAD_TERMS if "min" in words else reason  # checked before: 5 is above the quantity
    assert Reason(last_reason(market, f"{BEFORE}; p1 c50 NEW buy {words}")) == expected


def test_terms_wait_for_the_next_order_with_the_flag_which_consumes_them(market: AnyMarket) -> None:
    sent = parse_all(
        "p1 c1 NEW buy 9@90; p1 c2 NEW buy 9@91 terms; p1 c3 NEW buy 9@92 terms; p1 c3 NEW buy 9@93 terms; p1 c9 NEW buy 9@93 terms"
    )
    terms = parse_all("p1 c1 NEW buy 1@1 display=1")[:1]
    first, second = terms.copy(), terms.copy()
    first["command_id"], first["price_ticks"] = -1, 7  # stale: it changes nothing
    second["command_id"], second["price_ticks"] = 0, 4
    market.submit(terms)
    events = market.submit(sent[1:2])
    assert [show(event) for event in events] == ["p1 ACCEPTED c2 o2 #1 s0 buy 1@91 leaves 9 RESTING"]
    assert [show(event) for event in market.submit(sent[2:3])] == [
        "p1 REJECTED c3 o3 #0 s0 buy 9@92 leaves 0 BAD_TERMS"
    ]
    assert Reason(market.submit(first)[0]["reason"]) == Reason.STALE_COMMAND_ID
    assert len(market.submit(second)) == 0
    assert Reason(market.submit(sent[3:4])[0]["reason"]) == Reason.STALE_COMMAND_ID  # and the term is there still
    assert [show(event) for event in market.submit(sent[4:5])] == ["p1 ACCEPTED c9 o9 #2 s0 buy 4@93 leaves 9 RESTING"]


@pytest.mark.parametrize(
    "rejected",
    [
        "p1 c20 NEW s7 buy 9@90 terms",
        "p1 c20 NEW side=3 9@90 terms",
        "p1 c20 NEW buy 0@90 terms",
        "p1 c20 NEW buy 9@0 terms",
    ],
)
def test_a_rejected_order_consumes_its_terms(market: AnyMarket, rejected: str) -> None:
    term = parse_all("p1 c2 NEW buy 1@1 display=2")[:1]
    market.submit(term)
    assert len(market.submit(parse_all(rejected))) == 1
    assert Reason(last_reason(market, "p1 c30 NEW buy 9@90 terms")) == Reason.BAD_TERMS


def test_the_last_value_of_a_term_counts_and_an_order_without_the_flag_ignores_it(market: AnyMarket) -> None:
    terms = parse_all("p1 c2 NEW buy 1@1 display=2; p1 c4 NEW buy 1@1 display=3")[[0, 2]]
    market.submit(terms)
    events = market.submit(parse_all("p1 c10 NEW buy 9@90; p1 c11 NEW buy 9@91 terms"))
    assert [event["qty_lots"] for event in events] == [9, 3]


@pytest.mark.parametrize("term", [NO_TERM, max(Term) + 1, 200, 255])
def test_an_unknown_term_makes_the_order_bad(market: AnyMarket, term: int) -> None:
    sent = parse_all("p1 c3 NEW buy 9@90 display=2 stp=none")
    sent["flags"][1] = term
    assert Reason(market.submit(sent)[0]["reason"]) == Reason.BAD_TERMS


def test_every_flag_and_time_in_force_is_valid_somewhere() -> None:
    sent = parse_all(
        "; ".join(order(words) for words in rows(FINE)) + "; p1 c1 NEW buy 1@1 reduce; p1 c2 NEW buy 1@1 at_open"
    )
    news = sent[sent["kind"] == 1]
    assert {bit for bit in CommandFlag if any(news["flags"] & bit)} == set(CommandFlag) - {CommandFlag.NONE}
    assert set(news["time_in_force"].tolist()) == set(TimeInForce)
