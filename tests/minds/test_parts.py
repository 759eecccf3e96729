"""Memory, herding, checks, disguise, events, budgets: each alone."""

import asyncio
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.clients.book import Level
from serl.clients.session import Instrument, Order
from serl.clients.values import Trade
from serl.exchange.records import Side, TimeInForce
from serl.minds.anonymous import Disguise
from serl.minds.checks import check_cancel, check_order
from serl.minds.config import SECOND_NS, BudgetConfig, MemoryConfig, MindsConfig, load_minds
from serl.minds.decision import Decision, decision_schema, parse_decision
from serl.minds.errors import DecisionRefused, MindsConfigError
from serl.minds.events import FileEvents, MarketEvent, MergedEvents, read_event_lines
from serl.minds.exact_schema import exact_schema
from serl.minds.forum import Forum
from serl.minds.herding import expected_deviation, herding
from serl.minds.market_view import SymbolView, Tape
from serl.minds.memory import Memory, cosine, word_counts
from serl.minds.model_calls import Ledger, ModelCalls
from serl.minds.portfolio import Loan, Portfolio
from serl.minds.prompts import Observation, decision_messages, event_text, rules_text
from serl.researcher.llm.answers import Answer
from serl.researcher.llm.client import Client
from serl.researcher.llm.errors import BudgetSpentError
from serl.researcher.llm.settings import Endpoint
from tests.minds.scripted import settings
from tests.researcher.llm.fake import completion, fake_endpoint

DAY_NS = 86_400 * SECOND_NS
STOCK = Instrument(0, "AMZN", Decimal("0.01"), Decimal(1))


def test_memories_are_scored_by_recency_relevance_and_importance() -> None:
    memory = Memory(MemoryConfig())
    memory.add("short", "earnings of S1 rise", 60, 0)
    (item,) = memory.items
    words = word_counts("earnings fall")
    expected = math.exp(-9 / 90) + 1 / math.sqrt(4 * 2) + 60 * 0.967**9 / 100
    assert memory.score(item, words, 9) == pytest.approx(expected)
    assert cosine(words, words) == pytest.approx(1)
    assert cosine(words, word_counts("")) == 0


def test_retrieval_takes_the_best_of_each_layer() -> None:
    memory = Memory(MemoryConfig(top_k=1))
    memory.add("working", "bought S1", 50, 0)
    memory.add("working", "sold S2", 50, 0)
    memory.add("long", "rates rise", 50, 0)
    assert [item.text for item in memory.retrieve("what about S2", 1)] == ["rates rise", "sold S2"]
    assert Memory(MemoryConfig()).retrieve("nothing", 1) == []


def test_used_memories_move_to_the_next_layer_and_faded_ones_are_forgotten() -> None:
    memory = Memory(MemoryConfig())
    memory.add("working", "the news moved S1", 58, 0)
    memory.reinforce(memory.items, 0)
    assert (memory.items[0].layer, memory.items[0].importance) == ("short", 63)
    memory.add("working", "an order rested", 40, 0)
    assert memory.forget(10) == 0
    assert memory.forget(25) == 1, "0.9^25 of 40 is below 5"
    assert [item.text for item in memory.items] == ["the news moved S1"]


def test_a_full_layer_forgets_its_lowest_score() -> None:
    full = MemoryConfig.model_validate({"working": {"stability": 14, "importance_decay": 0.9, "size_max": 2}})
    memory = Memory(full)
    for importance in (50, 20, 40):
        memory.add("working", f"of importance {importance}", importance, 0)
    assert memory.forget(0) == 1
    assert [item.importance for item in memory.items] == [50, 40]


def test_herding_is_zero_without_and_large_with_it() -> None:
    # ten traders, half of them buyers in each period: less than chance gives, so H is minus the expected deviation
    even = [("A", period, f"m{n}", 1 if n % 2 else -1) for period in range(4) for n in range(10)]
    measured = herding(even)
    assert measured.mean == pytest.approx(-expected_deviation(10, 0.5))
    assert measured.buyers_share == 0.5
    together = [("A", period, f"m{n}", 1 if period % 2 else -1) for period in range(4) for n in range(10)]
    assert herding(together).mean == pytest.approx(0.5 - expected_deviation(10, 0.5))
    assert herding(even[:4]).mean is None, "fewer than five traders"
    lonely = [("A", 9 + period, "m0", 1) for period in range(10)]
    assert herding([*even, *lonely]).buyers_share == 0.6 and herding([*even, *lonely]).symbol_periods == 4
    assert herding([*even, ("A", 0, "m0", 1)]).symbol_periods == 4, "a trader who bought what it sold is none"


def test_the_expected_deviation_is_that_of_the_binomial() -> None:
    # B of two traders is 0, 1 or 2 with 1/4, 1/2, 1/4: the mean deviation from 1/2 is 1/4
    assert expected_deviation(2, 0.5) == pytest.approx(0.25)


def view(*, last: int | None = 10_000, quotes: bool = True, start: str | None = None) -> SymbolView:
    bids, asks = ([Level(9_990, 50, 1)], [Level(10_010, 50, 1)]) if quotes else ([], [])
    return SymbolView(STOCK, bids, asks, last, [], None if start is None else Decimal(start))


OWNED = Portfolio(Decimal(1000), Decimal(1000), {"AMZN": 5}, {"AMZN": 5}, Decimal(0), Decimal(1500))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"symbol": "S9"}, "symbol"),
        ({"quantity": 0}, "quantity"),
        ({"quantity": 10_001}, "quantity"),
        ({"price": "0"}, "price"),
        ({"price": "79.99"}, "price"),
        ({"price": "120.01"}, "price"),
        ({"quantity": 11}, "cash"),
        ({"action": "sell", "quantity": 6}, "shares"),
        ({"order_type": "market", "quantity": 10}, "cash"),  # up to 102.10 each
    ],
)
def test_orders_that_cannot_be_are_refused(fields: dict[str, Any], reason: str) -> None:
    values = {"action": "buy", "symbol": "S1", "order_type": "limit", "price": "100", "quantity": 1} | fields
    decision = Decision.model_validate(values)
    symbol = "AMZN" if decision.symbol == "S1" else None
    with pytest.raises(DecisionRefused) as refused:
        check_order(decision, symbol, decision.symbol, {"AMZN": view()}, OWNED, 0, settings())
    assert refused.value.reason == reason


def test_orders_that_can_be_get_ticks_and_bounds() -> None:
    def plan(last: int | None = 10_000, quotes: bool = True, start: str | None = None, **fields: Any) -> Any:
        values = {"action": "buy", "symbol": "S1", "order_type": "limit", "price": "99.996", "quantity": 2} | fields
        views = {"AMZN": view(last=last, quotes=quotes, start=start)}
        return check_order(Decision.model_validate(values), "AMZN", "S1", views, OWNED, 0, settings())

    assert plan().price_ticks == 9_999, "a buyer never pays more than it said"
    assert plan(action="sell").price_ticks == 10_000
    market = plan(order_type="market")
    assert (market.price_ticks, market.time_in_force) == (10_210, TimeInForce.IOC)
    assert plan(order_type="market", action="sell").price_ticks == 9_791
    assert plan(None, False, price="3").price_ticks == 300, "without any price there is no band"
    with pytest.raises(DecisionRefused, match="to 90071992547409"):
        plan(None, False, action="sell", price="1e15")  # more ticks than a price can have
    with pytest.raises(DecisionRefused, match="from 80"):
        plan(None, False, "100", price="3")
    with pytest.raises(DecisionRefused, match="nobody offers"):
        plan(quotes=False, order_type="market")


def test_only_own_orders_are_cancelled() -> None:
    mine = Order(7, 0, Side.BUY, 100, 1, TimeInForce.GTC, "open")
    assert check_cancel(Decision(action="cancel", order_id=7), [mine]) is mine
    with pytest.raises(DecisionRefused, match="7"):
        check_cancel(Decision(action="cancel", order_id=8), [mine])


def test_the_exact_schema_has_only_what_is_possible() -> None:
    names = Disguise(["AMZN"], {}, 0, active=True)
    poor = Portfolio(Decimal(50), Decimal(50), {"AMZN": 5}, {"AMZN": 3}, Decimal(0), Decimal(550))
    mine = Order(7, 0, Side.SELL, 100, 2, TimeInForce.GTC, "open")
    found = exact_schema(Observation(0, {"AMZN": view()}, poor, [mine]), settings(forum=False), names)
    choices = [choice["properties"] for choice in found["anyOf"]]
    assert [(one["action"]["enum"][0], one.get("order_type", {}).get("enum")) for one in choices] == [
        ("sell", ["limit"]), ("sell", ["market"]), ("nothing", None), ("cancel", None),
    ]  # fmt: skip
    assert choices[0]["quantity"]["maximum"] == 3
    assert choices[0]["price"] == {"type": "number", "minimum": 80.0, "maximum": 120.0, "multipleOf": 0.01}
    assert choices[3]["order_id"] == {"enum": [7]}


def test_the_length_of_texts_is_told_and_enforced() -> None:
    config, names = settings(text_length_max=60), Disguise(["AMZN"], {}, 0, active=True)
    rich = Portfolio(Decimal(500), Decimal(500), {"AMZN": 5}, {"AMZN": 3}, Decimal(0), Decimal(550))
    exact = exact_schema(Observation(0, {"AMZN": view()}, rich, []), config, names)
    schemas = [decision_schema(["S1"], 1, forum=True, loans=False, text_length_max=60), *exact["anyOf"]]
    assert {one["properties"][name]["maxLength"] for one in schemas for name in ("reason", "post")} == {60}
    assert rules_text(config, names).count("at most 60 characters") == 2
    with pytest.raises(ValidationError, match="text_length_max"):
        settings(text_length_max=201)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I would buy ten shares.", "prose"),
        ("", "empty"),
        ('{"action": "buy", ', "syntax"),
        ('{"action": "short"}', "schema"),
        ('{"action": "buy", "quantity": -1}', "schema"),
        ('{"action": "buy", "price": NaN}', "syntax"),
        ('{"action": "buy", "price": "Infinity"}', "schema"),
        (json.dumps({"action": "nothing", "reason": "x" * 201}), "schema"),
        ('{"action": "buy", "price": "0.' + "1" * 30_000 + '"}', "schema"),  # no file of a run could be read again
        (json.dumps({"action": "nothing", "reason": "\ud800"}), "schema"),
        (json.dumps({"action": "nothing", "symbol": "\ud800"}), "schema"),  # it could not be written to a file
    ],
)
def test_answers_that_are_no_decision_are_refused(text: str, reason: str) -> None:
    with pytest.raises(DecisionRefused) as refused:
        parse_decision(Answer(text, "stop"))
    assert refused.value.reason == reason


def test_a_cut_off_answer_is_truncated() -> None:
    with pytest.raises(DecisionRefused) as refused:
        parse_decision(Answer('{"reason": "because', "length"))
    assert refused.value.reason == "truncated"


def test_prompts_hide_symbols_and_dates() -> None:
    midnight_ns = 14_000 * DAY_NS  # 2008-05-01
    names = Disguise(["AMZN", "A"], {"AMZN": ["Amazon", "Amazon Inc"]}, midnight_ns, active=True)
    text = "Amazon Inc (amzn) rose on 2008-05-02; AMZNX did not. A rise."
    assert names.text(text) == "S1 (S1) rose on day 2; AMZNX did not. A rise."
    assert names.time(midnight_ns + DAY_NS + 34_200 * SECOND_NS) == "day 2, 09:30:00"
    assert (names.symbol("S2"), names.symbol("AMZN")) == ("A", None)
    plain = Disguise(["AMZN"], {}, midnight_ns, active=False)
    assert plain.text(text) == text
    assert plain.time(midnight_ns) == "2008-05-01 00:00:00"
    assert Disguise(["AMZN"], {}, 0, active=True).text("on 2008-05-02") == "on another day"


def test_letters_that_match_regardless_of_case_are_replaced_too() -> None:
    """The dotless and the dotted i of Turkish match an i, but their lower case is another letter."""
    names = Disguise(["ALFA", "IBM"], {"ALFA": ["Alfa Chemicals"]}, 0, active=True)
    assert names.text("Alfa Chemıcals, ALFA CHEMİCALS, ıbm and İBM") == "S1, S1, S2 and S2"


def test_events_come_at_their_times_and_contradictions_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = [
        {"kind": "news", "text": "later", "time": "10:00", "day": 1},
        {"kind": "loan_rate", "text": "up", "after_s": 60, "value": 0.05},
        {"kind": "loan_rate", "text": "down", "after_s": 60, "value": 0.03},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    events = MergedEvents([FileEvents(read_event_lines(path, ["AMZN"]), 1000, 0)])

    def new(time_ns: int) -> list[tuple[str, bool]]:
        return [(event.text, event.contradicts) for event in asyncio.run(events.new(time_ns))]

    assert new(60 * SECOND_NS + 999) == []
    assert new(60 * SECOND_NS + 1000) == [("up", False), ("down", True)]
    assert new(DAY_NS + 36_000 * SECOND_NS - 1) == []
    assert new(2 * DAY_NS) == [("later", False)]
    assert new(2 * DAY_NS) == [], "nothing comes twice"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no JSON", "events.jsonl:2: expected a JSON object"),
        ('{"kind": "news", "text": "x"}', "expected `time` or `after_s`, got neither"),
        ('{"kind": "rumour", "text": "x", "after_s": 1}', "kind: "),
        ('{"kind": "loan_rate", "text": "x", "after_s": 1}', "expected the rate per year"),
        ('{"kind": "news", "text": "x", "time": "25:00"}', "time of day"),
        ('{"kind": "news", "text": "x", "after_s": 1, "symbol": "GOOG"}', "expected a symbol of the exchange"),
    ],
)
def test_bad_lines_of_events_are_one_line_errors(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"kind": "news", "text": "fine", "after_s": 0}\n' + line + "\n")
    with pytest.raises(MindsConfigError, match=message):
        read_event_lines(path, ["AMZN"])
    with pytest.raises(MindsConfigError, match="check the path"):
        read_event_lines(tmp_path / "none.jsonl", ["AMZN"])


def test_an_event_about_a_symbol_that_is_not_traded_names_none() -> None:
    event = MarketEvent(0, "news", "A plant\ncloses", "GOOG", 2.5)
    assert event_text(event, Disguise(["AMZN"], {}, 0, active=True)) == (
        "day 1, 00:00:00, news about another symbol: A plant closes [2.5]"
    )
    assert "about GOOG" in event_text(event, Disguise(["AMZN"], {}, 0, active=False))


def test_many_events_do_not_overflow_the_context() -> None:
    """The oldest are left out."""
    config, names = settings(), Disguise(["AMZN"], {}, 0, active=True)
    events = [MarketEvent(number, "news", f"story {number} " + "x" * 1000) for number in range(20)]
    seen = Observation(0, {"AMZN": view()}, OWNED, [], events=events)
    (system, user), _ = decision_messages("one", config.personas[0], seen, config, names, 3000)
    assert len((system["content"] + user["content"]).encode()) <= 3000 * 3
    assert "story 19" in user["content"] and "story 0 " not in user["content"]


def test_posts_are_seen_from_the_next_decision_on() -> None:
    forum = Forum()
    forum.post(10, "b", "second")
    forum.post(10, "a", "first")
    assert forum.unread(0, 10, "c") == ([], 0)
    found, end = forum.unread(0, 11, "c")
    assert ([post.text for post in found], end) == (["first", "second"], 2)
    assert [post.text for post in forum.unread(0, 11, "a")[0]] == ["second"]


def test_bars_are_of_the_trades_in_the_book() -> None:
    tape = Tape()
    prices = [(1, 0, 100, 0), (2, 5, 90, 0), (3, 12, 110, 0), (4, 13, 500, 1)]
    tape.add(Trade(number, at, price, 2, 0, kind) for number, at, price, kind in prices)
    tape.add([Trade(1, 0, 100, 2, 0, 0)])
    bars = tape.bars(20, 10, 2)
    shown = [
        (bar.start_ns, bar.open_ticks, bar.high_ticks, bar.low_ticks, bar.close_ticks, bar.volume_lots) for bar in bars
    ]
    assert shown == [(0, 100, 100, 90, 90, 4), (10, 110, 110, 110, 110, 2)]
    assert tape.last_ticks == 110, "a print is no price of the book"


def test_interest_follows_the_rate() -> None:
    year_ns = 365 * DAY_NS
    loan = Loan(Decimal(1000), 0.04, 0)
    loan.change_rate(0.10, year_ns)
    loan.accrue(3 * year_ns // 2)
    loan.accrue(year_ns)
    assert loan.interest_paid == Decimal(40) + Decimal(50)
    with pytest.raises(DecisionRefused, match=r"at or below 750\.00"):
        loan.borrow(Decimal(1), OWNED, 0.5)
    with pytest.raises(DecisionRefused):
        loan.repay(Decimal(1001), OWNED)
    loan.repay(Decimal(600), OWNED)
    assert loan.principal == 400


def test_a_ledger_counts_what_is_under_way() -> None:
    ledger = Ledger("mind", BudgetConfig(tokens_max=100, calls_max=3))
    ledger.require(60)
    ledger.reserve(60)
    with pytest.raises(BudgetSpentError, match="raise tokens_max"):
        ledger.require(60)
    ledger.settle(60, 20, 10)
    ledger.require(60)
    for _ in range(2):
        ledger.reserve(1)
    with pytest.raises(BudgetSpentError, match="3 of 3 calls"):
        ledger.require(1)


def test_a_mind_without_a_budget_does_not_wait_for_the_calls_of_others() -> None:
    """Only the common budget may have more once calls under way have ended."""

    async def asked() -> None:
        calls = ModelCalls(Client(Endpoint(base_url="http://127.0.0.1:1/v1", model="fake")), BudgetConfig(), temperature=0.7, answer_tokens=32, parallel=1)  # fmt: skip
        own = Ledger("spender", BudgetConfig(calls_max=1))
        own.reserve(10)
        own.settle(10, 5, 5)
        calls.ledger.reserve(50)  # another mind's call, which does not end
        async with asyncio.timeout(5.0):
            with pytest.raises(BudgetSpentError, match="spender: 1 of 1 calls"):
                await calls.ask(own, [{"role": "user", "content": "x"}], {}, 1)

    asyncio.run(asked())


def test_minds_of_an_endpoint_without_seeds_are_answered() -> None:
    with fake_endpoint(completion("one"), completion("two")) as fake:
        client = Client(Endpoint(base_url=fake.url, model="fake", omit=frozenset({"seed"})))
        calls = ModelCalls(client, BudgetConfig(), temperature=0.7, answer_tokens=32, parallel=1)
        asked = [calls.ask(Ledger("one", BudgetConfig()), [{"role": "user", "content": "x"}], {}, seed) for seed in (1, 2)]  # fmt: skip
        assert [asyncio.run(one).text for one in asked] == ["one", "two"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "tiny"}, "expected `model` or `endpoint`, got both"),
        ({"duration_s": 5}, "expected `hours` or `duration_s`, got both"),
        ({"hours": "10:00-09:00"}, "swap them"),
        ({"personas": [{"name": "a"}, {"name": "a"}]}, "each name once"),
        ({"personas": [{"name": "a", "count": 300}, {"name": "b", "count": 300}]}, "at most 500"),
        ({"personas": [{"name": "a", "loan": 5}]}, "expected `loans`"),
        ({"personas": [{"name": "a", "shares": {"AMZN": -5}}]}, "cannot start short"),
        ({"prices": {"AMZN": 0}}, "greater than 0"),
        ({"aliases": {"AMZN": ["Amazon", " "]}}, "aliases"),
        ({"interval_s": float("inf")}, "less than or equal"),
        ({"hours": None, "duration_s": float("inf")}, "less than or equal"),
    ],
)
def test_settings_that_contradict_each_other(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**changed)


def test_settings_come_from_files(tmp_path: Path) -> None:
    for name in ("two-stocks", "two-stocks-week", "single", "finmem"):
        config, folder = load_minds(name)
        assert isinstance(config, MindsConfig)
        if config.events is not None:
            assert read_event_lines(folder / config.events, config.symbols)
    mine = tmp_path / "mine.yaml"
    mine.write_text("name: mine\npersonas: []\n")
    with pytest.raises(MindsConfigError, match=r"mine.yaml: personas: "):
        load_minds(str(mine))
    with pytest.raises(MindsConfigError, match="did you mean single"):
        load_minds("singel")


def test_a_thread_that_ends_after_the_run_disturbs_nobody() -> None:
    """The answer of an endpoint that comes too late is dropped."""
    import threading

    from serl.minds.model_calls import in_thread

    release = threading.Event()

    async def stopped() -> None:
        call = asyncio.ensure_future(in_thread(release.wait))
        await asyncio.sleep(0)
        call.cancel()

    asyncio.run(stopped())
    (thread,) = [one for one in threading.enumerate() if one.name == "model-call"]
    release.set()
    thread.join(10)
    assert not thread.is_alive()
