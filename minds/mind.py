"""One mind: what it knows, how it decides, and how decisions become orders."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import numpy as np

from serl.clients.asynchronous import AsyncExchange
from serl.clients.errors import Rejected, RequestRejected, refused_command
from serl.clients.values import Balance
from serl.minds.checks import check_cancel, check_order
from serl.minds.config import LoansConfig, PersonaConfig
from serl.minds.decision import Decision, decision_schema, parse_decision, parse_reflection, reflection_schema
from serl.minds.errors import DecisionRefused
from serl.minds.events import EventKind, EventSource, MarketEvent
from serl.minds.exact_schema import exact_schema
from serl.minds.files import decision_row, end_row
from serl.minds.forum import Post
from serl.minds.market_view import SymbolView, see_market
from serl.minds.memory import Layer, Memory, MemoryItem
from serl.minds.model_calls import Ledger
from serl.minds.outcomes import OrderLog
from serl.minds.portfolio import Loan, Portfolio, portfolio_of
from serl.minds.prompts import Observation, decision_messages, event_text, one_line, reflection_messages
from serl.minds.random_decision import random_decision
from serl.minds.run_state import MindCounts, RunState
from serl.researcher.llm.answers import Answer
from serl.researcher.llm.errors import BudgetSpentError, LlmError
from serl.researcher.llm.requests import Message

EVENT_MEMORY: dict[EventKind, tuple[Layer, float]] = {
    "news": ("short", 50.0), "macro": ("short", 60.0), "loan_rate": ("short", 60.0), "fundamental": ("long", 70.0),
    "value": ("long", 70.0),
}  # fmt: skip
"""Layer and importance of an event in the memory. Forecasts are not remembered, because they soon expire."""
OUTCOME_IMPORTANCE, POST_IMPORTANCE = 50.0, 40.0
ENDPOINT = "endpoint"
"""Name under which decisions without an answer of the model are counted."""


class Mind:
    """A trader of a persona, with a session of its own."""

    def __init__(
        self, number: int, persona: PersonaConfig, client: AsyncExchange, events: EventSource, shared: RunState, start_ns: int
    ) -> None:  # fmt: skip
        self.name, self.persona, self.client = client.session.name, persona, client
        self._events, self._shared, config = events, shared, shared.config
        self.memory = Memory(config.memory)
        loans = config.loans or LoansConfig(rate_per_year=0.0)
        self.loan = Loan(persona.loan, loans.rate_per_year, start_ns)
        self.ledger = Ledger(self.name, config.budget_per_mind)
        self.counts = MindCounts()
        #: why the mind stopped trading; "" while it trades
        self.ended = ""
        self._seed = config.seed if config.shared_answers else config.seed * 1_000_003 + number
        self._random = np.random.default_rng((config.seed, number))
        self._prompt_name = "" if config.shared_answers else self.name
        self._first_post = 0
        #: wealth at the first decision
        self.first_wealth: Decimal | None = None
        self._orders = OrderLog(client.session, shared.disguise)
        self._refusals: list[str] = []
        self._schema = decision_schema(
            shared.disguise.names,
            config.order_lots_max,
            forum=config.forum,
            loans=config.loans is not None,
            text_length_max=config.text_length_max,
        )

    async def decide(self, now_ns: int) -> None:
        """Looks, asks the model, and acts. A refused decision is counted, and the mind is told at its next decision. Once the budget is spent, nothing
        more happens."""
        config, counts = self._shared.config, self.counts
        number = counts.decisions
        events, posts = await self._new_events(now_ns), self._new_posts(now_ns)
        views, portfolio = await self.look(now_ns)
        outcomes = self._orders.news(counts.rejected)
        if self.first_wealth is None:
            self.first_wealth = portfolio.wealth
        told = [event.text for event in events if event.kind in EVENT_MEMORY]
        query = " ".join([self.persona.style, *told, *(post.text for post in posts)])
        memories = self.memory.retrieve(self._shared.disguise.text(query), number)
        seen = Observation(
            now_ns, views, portfolio, self.client.open_orders(), [*outcomes, *self._refusals], events, memories, posts,
            self.loan.rate_per_year if config.loans else None,
        )  # fmt: skip
        self._refusals = []
        messages, shown = self._messages(seen)
        try:
            answer = await self._answer(messages, seen)
        except BudgetSpentError as error:
            await self._end(str(error))
            return
        except LlmError as error:
            answer = error
        counts.decisions += 1
        await self._act(answer, shown, now_ns)
        self._remember(seen, outcomes, number)
        await self._reflect(portfolio, now_ns)

    def _messages(self, seen: Observation) -> tuple[list[Message], Observation]:
        """(the request for a decision, what of the observation is in it); a random mind needs none."""
        if self.persona.decides == "random":
            return [], seen
        shared = self._shared
        return decision_messages(
            self._prompt_name, self.persona, seen, shared.config, shared.disguise, shared.calls.context_tokens
        )

    async def _answer(self, messages: list[Message], seen: Observation) -> Answer:
        """The model's answer, or one drawn at random. Raises LlmError."""
        shared, is_random = self._shared, self.persona.decides == "random"
        exact = exact_schema(seen, shared.config, shared.disguise) if is_random or shared.calls.has_grammars else None
        if is_random:
            assert exact is not None
            return random_decision(exact, self._random)
        return await shared.calls.ask(self.ledger, messages, exact or self._schema, self._seed)

    async def look(self, now_ns: int) -> tuple[dict[str, SymbolView], Portfolio]:
        """(the market by symbol, the portfolio), both now."""
        shared = self._shared
        views = await see_market(
            self.client, shared.symbols, shared.tapes, shared.config.prices, now_ns,
            levels=shared.config.levels, bars=shared.config.bars, interval_ns=shared.config.interval_ns,
        )  # fmt: skip
        self.loan.accrue(now_ns)
        balances: dict[str, Balance] = await self.client.account()
        instruments = {symbol: view.instrument for symbol, view in views.items()}
        prices = {symbol: view.price for symbol, view in views.items() if view.price is not None}
        own = [order for order in self.client.open_orders() if order.symbol in {i.number for i in instruments.values()}]
        return views, portfolio_of(self.persona, self.loan, balances, own, instruments, prices)

    async def last_look(self, now_ns: int) -> Decimal:
        """The mind's wealth at the end, which is logged together with what became of its last orders."""
        await self._events_with_rates(now_ns)  # loan rates may have changed since the last decision
        _, portfolio = await self.look(now_ns)
        outcomes = self._orders.news(self.counts.rejected)
        self._shared.log(end_row(now_ns, self.name, self.persona.name, portfolio, outcomes))
        return portfolio.wealth

    async def _new_events(self, now_ns: int) -> Sequence[MarketEvent]:
        """Events since the last decision, which are also counted."""
        events = await self._events_with_rates(now_ns)
        self.counts.events += len(events)
        self.counts.contradictions += sum(event.contradicts for event in events)
        return events

    async def _events_with_rates(self, now_ns: int) -> Sequence[MarketEvent]:
        """Events since the last call; loan rates are changed as of the events' times."""
        events = await self._events.new(now_ns)
        for event in events:
            if event.kind == "loan_rate" and event.value is not None:
                self.loan.change_rate(event.value, event.time_ns)
        return events

    def _new_posts(self, now_ns: int) -> list[Post]:
        found, self._first_post = self._shared.forum.unread(self._first_post, now_ns, self.name)
        limit = self._shared.config.posts_max
        return found[-limit:] if limit else []

    async def _act(self, answer: Answer | LlmError, seen: Observation, now_ns: int) -> None:
        """Carries out an answer, or counts why it is not carried out."""
        decision: Decision | None = None
        refused = ""
        try:
            if isinstance(answer, LlmError):
                raise DecisionRefused(ENDPOINT, f"no answer from the model ({answer})")
            decision = parse_decision(answer)
            await self._carry_out(decision, seen)
            self.counts.valid += 1
            self.counts.actions[decision.action] += 1
        except DecisionRefused as error:
            refused = error.reason
            if refused == ENDPOINT:
                self._count_unanswered(refused, str(error))
            else:
                self.counts.refused[refused] += 1
                self._refusals.append(f"Refused: {error}")
        if decision is not None and decision.post and self._shared.config.forum:
            self._shared.forum.post(now_ns, self.name, one_line(decision.post))
            self.counts.posts += 1
        if decision is not None and not refused and decision.action in ("buy", "sell"):
            self.memory.reinforce(list(seen.memories), self.counts.decisions - 1)
        self._shared.log(decision_row(self.name, self.persona.name, seen, decision, refused))

    async def _carry_out(self, decision: Decision, seen: Observation) -> None:
        """Carries out a decision. Raises DecisionRefused. The mind is told at its next decision what the exchange rejects."""
        config, loans = self._shared.config, self._shared.config.loans
        if decision.action == "nothing":
            return
        if decision.action in ("borrow", "repay"):
            if loans is None:
                raise DecisionRefused("loan", "there are no loans; use your own money")
            if decision.action == "borrow":
                self.loan.borrow(decision.amount, seen.portfolio, loans.share_max)
            else:
                self.loan.repay(decision.amount, seen.portfolio)
            return
        if decision.action == "cancel":
            order = check_cancel(decision, seen.open_orders)
            try:
                await self.client.cancel(order)
            except Rejected:
                self._refusals.append(f"Your order {order.order_id} was no longer open.")
            except RequestRejected as error:
                _require_named(error)
                self._refusals.append(f"Your order {order.order_id} was not cancelled: {error}")
            return
        symbol = self._shared.disguise.symbol(decision.symbol)
        plan = check_order(
            decision, symbol, decision.symbol, seen.views, seen.portfolio, len(seen.open_orders), config
        )  # fmt: skip
        send = self.client.buy if decision.action == "buy" else self.client.sell
        self.counts.orders += 1
        with self._orders.sending(), suppress(Rejected):  # the order's state shows the rejection
            try:
                await send(plan.symbol, plan.qty_lots, plan.price_ticks, time_in_force=plan.time_in_force)
            except RequestRejected as error:  # and that the exchange did not accept it, because it limits messages
                _require_named(error)

    def _remember(self, seen: Observation, outcomes: Sequence[str], number: int) -> None:
        disguise = self._shared.disguise
        for event in seen.events:
            if event.kind in EVENT_MEMORY:
                layer, importance = EVENT_MEMORY[event.kind]
                own = importance if event.importance is None else event.importance
                self.memory.add(layer, event_text(event, disguise), own, number)
        time = disguise.time(seen.time_ns)
        for text in outcomes:
            self.memory.add("working", f"{time}: {text}", OUTCOME_IMPORTANCE, number)
        for post in seen.posts:
            self.memory.add("working", f"{time}: {post.author} wrote: {post.text}", POST_IMPORTANCE, number)
        self.memory.forget(number)

    async def _reflect(self, portfolio: Portfolio, now_ns: int) -> None:
        """Every `reflect_every` decisions of a model, asks it for a lesson, which is stored in the long layer."""
        every, number = self._shared.config.memory.reflect_every, self.counts.decisions
        if not every or number % every or not self.memory.items or self.persona.decides == "random":
            return
        best: list[MemoryItem] = self.memory.retrieve(self._shared.disguise.text(self.persona.style), number)
        messages = reflection_messages(
            self._prompt_name, self.persona, [item.text for item in best], f"Your wealth is {portfolio.wealth:.2f}.",
            self._shared.config, self._shared.disguise, self._shared.calls.context_tokens,
        )  # fmt: skip
        try:
            answer = await self._shared.calls.ask(self.ledger, messages, reflection_schema(), self._seed)
            reflection = parse_reflection(answer)
        except BudgetSpentError as error:
            await self._end(str(error))
        except LlmError as error:
            self._count_unanswered(f"reflection_{ENDPOINT}", f"no answer from the model ({error})")
        except DecisionRefused as error:
            self.counts.refused[f"reflection_{error.reason}"] += 1
        else:
            self.counts.reflections += 1
            lesson = one_line(reflection.insight)
            self.memory.add("long", lesson, float(reflection.importance), number)
            self._shared.log(
                {"row": "lesson", "time_ns": now_ns, "mind": self.name, "persona": self.persona.name, "lesson": lesson}
            )

    def _count_unanswered(self, reason: str, text: str) -> None:
        """Counts a request that the model did not answer; the first one of its kind is reported."""
        self.counts.refused[reason] += 1
        if self.counts.refused[reason] == 1:
            self._shared.say(f"{self.name}: {text}")

    async def _end(self, reason: str) -> None:
        """Stops trading: cancels the mind's open orders and reports it."""
        self.ended = reason
        if self.client.open_orders():
            await self.client.mass_cancel()
        self._shared.say(f"{reason}; {self.name} trades no more")

    @property
    def turnover(self) -> Decimal:
        """Total value of all fills so far, bought and sold."""
        total = Decimal(0)
        for fill in self.client.fills():
            instrument = self.client.session.instrument_numbered(fill.symbol)
            total += fill.qty_lots * instrument.lot_size * instrument.price(fill.price_ticks)
        return total


def _require_named(error: RequestRejected) -> None:
    """Raises a refusal again unless it names a command, which alone it concerns."""
    if not refused_command(error):
        raise error
