"""The prompts that tell a mind who it is, what it sees, and what it may answer."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from serl.clients.session import Order
from serl.exchange.records import Side
from serl.minds.anonymous import Disguise
from serl.minds.config import MindsConfig, PersonaConfig
from serl.minds.decision import INSIGHT_LENGTH_MAX
from serl.minds.events import MarketEvent
from serl.minds.forum import Post
from serl.minds.market_view import SymbolView
from serl.minds.memory import MemoryItem
from serl.minds.portfolio import Portfolio
from serl.researcher.llm.requests import Message

RISKS = {
    "averse": "You avoid risk: small positions, and cash in reserve.",
    "neutral": "You accept risk if the expected gain is worth it.",
    "seeking": "You seek risk: large positions if you see a chance.",
}
NOTHING = "none"
WORDS = b"abcdefghijklmnopqrstuvwxyz "
"""Three of these bytes are counted as a token, and every other byte as one: small models have a token for each digit, sign, and byte of other scripts."""
TEMPLATE_TOKENS = 32
"""Room for what a model's chat template adds to a conversation."""
_CONTRADICTION = " (contradicts an earlier report of the same time; for a rate, this one holds)"


@dataclass(frozen=True)
class Observation:
    """All that a mind is told at one decision."""

    time_ns: int
    views: Mapping[str, SymbolView]
    portfolio: Portfolio
    open_orders: Sequence[Order]
    outcomes: Sequence[str] = ()
    """What became of the mind's orders since the last decision, and why decisions were refused."""
    events: Sequence[MarketEvent] = ()
    memories: Sequence[MemoryItem] = ()
    posts: Sequence[Post] = ()
    loan_rate: float | None = None


def persona_text(name: str, persona: PersonaConfig, disguise: Disguise) -> str:
    """Who the mind is. name: "" for minds that share answers, because their prompts must not differ by name."""
    words = [
        f"You are {name}, a trader on a stock exchange." if name else "You are a trader on a stock exchange.", RISKS[persona.risk], f"Your style: {persona.style}.",
        f"You usually hold positions for {persona.horizon}.", persona.text,
    ]  # fmt: skip
    return disguise.text(" ".join(word for word in words if word))


def rules_text(config: MindsConfig, disguise: Disguise) -> str:
    """What the mind may answer."""
    lines = [
        "You decide once now. Answer with one JSON object and nothing else. Its fields:",
        f'- "reason": why, at most {config.text_length_max} characters',
        f'- "action": "buy", "sell", "cancel" or "nothing"{loan_actions(config)}',
        f'- "symbol": {" or ".join(disguise.names)}',
        '- "order_type": "limit" (rests until it trades at your price or better) or "market" (trades at once)',
        '- "price": of a limit order; 0 otherwise',
        f'- "quantity": lots to buy or sell, 1 to {config.order_lots_max}; 0 otherwise',
        '- "order_id": the order to cancel; 0 otherwise',
        *(['- "amount": money to borrow or repay; 0 otherwise'] if config.loans else []),
        *([f'- "post": what to tell the other traders, at most {config.text_length_max} characters, or ""'] if config.forum else []),
        "You cannot spend more than your free cash or sell more than your free lots.",
    ]  # fmt: skip
    return "\n".join(lines)


def loan_actions(config: MindsConfig) -> str:
    """The actions that only exist with loans."""
    return ', or "borrow" or "repay" money' if config.loans else ""


def market_text(seen: Observation, config: MindsConfig, disguise: Disguise) -> str:
    """The part of the prompt that is the same for all minds that decide at this time."""
    lines = [f"Time: {disguise.time(seen.time_ns)}"]
    lines += [line for symbol, view in seen.views.items() for line in _market_lines(symbol, view, config, disguise)]
    lines += ["New events:", *_or_none(event_text(event, disguise) for event in seen.events)]
    if seen.posts:
        lines += ["Posts of other traders:", *(f"- {post.author}: {post.text}" for post in seen.posts)]
    return "\n".join(lines)


def own_text(seen: Observation, disguise: Disguise) -> str:
    """The part of the prompt that only this mind gets."""
    lines = [*_portfolio_lines(seen, disguise), "Your open orders:"]
    lines += _or_none(_order_text(order, seen, disguise) for order in seen.open_orders)
    if seen.outcomes:
        lines += ["Since your last decision:", *(f"- {text}" for text in seen.outcomes)]
    if seen.memories:
        lines += ["You remember:", *(f"- {item.text}" for item in seen.memories)]
    return "\n".join([*lines, "What do you do? Answer in JSON."])


def _or_none(texts: Iterable[str]) -> list[str]:
    found = [f"- {text}" for text in texts]
    return found or [f"- {NOTHING}"]


def _portfolio_lines(seen: Observation, disguise: Disguise) -> list[str]:
    owned = seen.portfolio
    lines = [f"Your cash: {owned.cash:.2f}{_free(f'{owned.cash:.2f}', f'{owned.free_cash:.2f}')}"]
    if seen.loan_rate is not None:
        lines.append(f"Your loan: {owned.loan:.2f} at {seen.loan_rate:.2%} a year")
    held = (
        f"{disguise.shown(symbol)} {lots} lots{_free(str(lots), str(owned.free_lots[symbol]))}"
        for symbol, lots in owned.lots.items()
    )
    return [*lines, f"Your shares: {', '.join(held)}", f"Your wealth: {owned.wealth:.2f}"]


def _free(owned: str, free: str) -> str:
    """The amount that open orders leave free, if it is smaller; empty otherwise, because every word takes time to read."""
    return "" if free == owned else f" (free: {free})"


def _market_lines(symbol: str, view: SymbolView, config: MindsConfig, disguise: Disguise) -> list[str]:
    price = view.instrument.price
    sides = [
        ", ".join(f"{price(level.price_ticks)} x {level.qty_lots}" for level in side) or NOTHING
        for side in (view.bids, view.asks)
    ]
    last = "none" if view.last_ticks is None else str(price(view.last_ticks))
    if view.last_ticks is None and view.start_price is not None:
        last = f"none; issued at {view.start_price}"
    multiple = view.rules.lot_multiple
    whole = f"; quantities are multiples of {multiple}" if multiple > 1 else ""
    lines = [f"Market of {disguise.shown(symbol)}: last trade {last}; bids {sides[0]}; asks {sides[1]}{whole}"]
    for bar in view.bars:
        lines.append(
            f"- {disguise.time(bar.start_ns)}, {config.interval_s:g} s: open {price(bar.open_ticks)}, high {price(bar.high_ticks)}, "
            f"low {price(bar.low_ticks)}, close {price(bar.close_ticks)}, volume {bar.volume_lots}"
        )
    return lines


def _order_text(order: Order, seen: Observation, disguise: Disguise) -> str:
    symbol = next(name for name, view in seen.views.items() if view.instrument.number == order.symbol)
    price = seen.views[symbol].instrument.price(order.price_ticks)
    left_lots = order.open_lots if order.state == "open" else order.qty_lots - order.filled_lots
    return f"order_id {order.order_id}: {side_text(order.side)} {left_lots} {disguise.shown(symbol)} at {price}"


def side_text(side: int) -> str:
    """The action of a side."""
    return "buy" if side == Side.BUY else "sell"


def one_line(text: str) -> str:
    """A model's text without line breaks, with which it could fake sections in other minds' prompts."""
    return " ".join(text.split())


def event_text(event: MarketEvent, disguise: Disguise) -> str:
    """An event on one line."""
    about = f" about {disguise.shown(event.symbol)}" if event.symbol else ""
    value = "" if event.value is None else f" [{event.value:g}]"
    contradiction = _CONTRADICTION if event.contradicts else ""
    return f"{disguise.time(event.time_ns)}, {event.kind}{about}: {one_line(disguise.text(event.text))}{value}{contradiction}"


def decision_messages(
    name: str, persona: PersonaConfig, seen: Observation, config: MindsConfig, disguise: Disguise, context_tokens: int
) -> tuple[list[Message], Observation]:
    """(the conversation that asks for a decision, what of the observation is in it). If it is too long for the context, the oldest posts, then
    memories, then the oldest events are left out."""
    # the part that is the same for all minds comes first: a model's server evaluates a common prefix only once
    system, persona_words = rules_text(config, disguise), persona_text(name, persona, disguise)

    def text(less: int) -> str:
        shown = _without(seen, less)
        return f"{market_text(shown, config, disguise)}\n{persona_words}\n{own_text(shown, disguise)}"

    items = len(seen.posts) + len(seen.memories) + len(seen.events)
    messages, less = _fitting(system, text, items, context_tokens - config.answer_tokens)
    return messages, _without(seen, less)


def _without(seen: Observation, less: int) -> Observation:
    """An observation without this many items: first the oldest posts, then memories from the end of the list, then the oldest events."""
    posts = min(less, len(seen.posts))
    memories = min(less - posts, len(seen.memories))
    kept = seen.memories[: len(seen.memories) - memories]
    return replace(seen, posts=seen.posts[posts:], memories=kept, events=seen.events[less - posts - memories :])


def reflection_messages(
    name: str, persona: PersonaConfig, memories: Sequence[str], wealth_text: str, config: MindsConfig, disguise: Disguise,
    context_tokens: int,
) -> list[Message]:  # fmt: skip
    """The conversation that asks for a reflection (Generative Agents). If it is too long for the context, the last memories are left out."""

    def text(less: int) -> str:
        return "\n".join([
            "Look back at your trading.", wealth_text, "You remember:", *(f"- {text}" for text in memories[: len(memories) - less]),
            "What is the most important lesson for your next decisions? Answer with one JSON object and nothing else. Its fields:",
            f'- "insight": the lesson, at most {INSIGHT_LENGTH_MAX} characters',
            '- "importance": an integer from 0 to 100',
        ])  # fmt: skip

    system = persona_text(name, persona, disguise)
    return _fitting(system, text, len(memories), context_tokens - config.answer_tokens)[0]


def tokens_at_most(text: str) -> int:
    """A cautious estimate of the tokens of a text, whatever its script and however many figures it has."""
    data = text.encode()
    others = len(data.translate(None, WORDS))
    return others + math.ceil((len(data) - others) / 3)


def _fitting(system: str, text: Callable[[int], str], items: int, room_tokens: int) -> tuple[list[Message], int]:
    """(a conversation, how many of `items` are left out of it: no more than necessary). text: the user's message without a number of items."""
    room_tokens -= TEMPLATE_TOKENS + tokens_at_most(system)
    # by bisection: a prompt gets shorter with every item that is left out, and a late start may bring thousands of events
    fewest = bisect_left(range(items), True, key=lambda less: tokens_at_most(text(less)) <= room_tokens)
    return [{"role": "system", "content": system}, {"role": "user", "content": text(fewest)}], fewest
