"""The exchange's news channel as a source of events: what operators publish with `serl news send`, with a replay or manually."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

from serl.agents.signals.errors import SignalError
from serl.agents.signals.message import Forecast
from serl.clients.asynchronous import AsyncExchange
from serl.exchange.news import News, NewsKind
from serl.exchange.wire import Kind
from serl.minds.config import LOAN_RATE_MAX, MindsConfig
from serl.minds.events import EventKind, MarketEvent

TEXT_LENGTH_MAX = 2000
"""Characters of a message that a mind reads, in addition to the first SOURCE_LENGTH_MAX of its source."""
SOURCE_LENGTH_MAX = 80
KINDS: dict[int, EventKind] = {
    NewsKind.NEWS: "news", NewsKind.FUNDAMENTAL: "fundamental", NewsKind.MACRO: "macro", NewsKind.VALUE: "value",
}  # fmt: skip
"""Kinds of news that minds read, in addition to forecasts. There may be several forecasts each second, so only each symbol's newest is read."""


class NewsEvents:
    """The news that one mind reads from its subscription on. Each message is read once, even if the session or the exchange reconnects.

    In lockstep, the exchange publishes a message of time t once its clock is later than t, and sends it before the next turn. Minds query the messages
    when they decide, because a subscription to the feed would also send the exchange's time at every step of the market. An account with a latency
    subscribes instead: its feed is delayed, a query would not be.
    """

    def __init__(self, client: AsyncExchange, config: MindsConfig) -> None:
        self._client, self._news_max, self._reads_forecasts = client, config.news_max, config.forecasts
        self._rate_source = config.loans.rate_source if config.loans is not None else ""
        #: number of the last message that was queried
        self._last = 0
        self._unread: list[News] = []

    async def subscribe(self) -> None:
        """Subscribes to the messages that are published from now on.

        The number of the last message is requested first: a subscription "from now on" would begin when the exchange answers it, which in
        lockstep may be after the first turn.
        """
        published = await self._client.news(1)
        self._last = published[-1].sequence if published else 0
        if self._client.session.topic_prefix:
            self._client.subscribe_news(after=self._last)

    async def _arrived(self) -> list[News]:
        if self._client.session.topic_prefix:
            items = await self._client.wait_all(0)  # reports in these have updated the session's orders
            return [item for item in items if isinstance(item, News)]
        found: list[News] = []
        while True:
            published, items = (await self._client.ask(Kind.NEWS, self._client.session.token, self._last))[5]
            if published < self._last:  # an exchange restarted without its journal numbers from 1 again
                self._last = 0
                continue
            found += [News(*item) for item in items]
            if not items or found[-1].sequence >= published:
                self._last = published
                return found
            self._last = found[-1].sequence

    async def new(self, time_ns: int) -> Sequence[MarketEvent]:
        """See `EventSource`. Returns the newest `news_max` messages, all changes of the loan rate, and the newest forecast of each symbol.

        On a live clock, a message may arrive with a later time than `time_ns`; it is kept for the next call.
        """
        self._unread += await self._arrived()
        count = sum(message.time_ns <= time_ns for message in self._unread)  # times never decrease
        messages, self._unread = self._unread[:count], self._unread[count:]
        events = [self._event(message) for message in messages if message.kind in KINDS]
        rest = [event for event in events if event.kind != "loan_rate"]
        dropped = {id(event) for event in rest[: max(0, len(rest) - self._news_max)]}
        kept = [event for event in events if id(event) not in dropped]
        return [*kept, *(newest_forecasts(messages) if self._reads_forecasts else ())]

    def _event(self, message: News) -> MarketEvent:
        value, kind = message.value, KINDS[message.kind]
        if kind == "value" and value is not None:
            value = float(Decimal(value) * self._client.instrument(message.symbol).tick_size)
        is_rate = kind == "macro" and self._rate_source and message.source == self._rate_source
        if is_rate and value is not None and 0 <= value <= LOAN_RATE_MAX:
            kind = "loan_rate"
        text = " ".join(part for part in (message.headline, message.body) if part) or "What it is worth."
        source = f" ({message.source[:SOURCE_LENGTH_MAX]})" if message.source else ""
        return MarketEvent(message.time_ns, kind, text[:TEXT_LENGTH_MAX] + source, message.symbol, value)


def newest_forecasts(messages: Sequence[News]) -> list[MarketEvent]:
    """The newest forecast of each symbol, as an event. Messages of kind `signal` that are not forecasts are skipped."""
    found: dict[str, MarketEvent] = {}
    for message in reversed(messages):
        if message.kind == NewsKind.SIGNAL and message.symbol not in found:
            with suppress(SignalError):
                forecast = Forecast.from_news(message)
                source = f" ({message.source[:SOURCE_LENGTH_MAX]})" if message.source else ""
                text = forecast_text(forecast)[:TEXT_LENGTH_MAX] + source
                found[message.symbol] = MarketEvent(message.time_ns, "forecast", text, message.symbol)
    return sorted(found.values(), key=lambda event: (event.time_ns, event.symbol))


def forecast_text(forecast: Forecast) -> str:
    """A forecast in words, one sentence per horizon."""
    sentences = []
    for number, (horizon_s, (down, flat, up)) in enumerate(
        zip(forecast.horizons_s, forecast.probabilities, strict=True)
    ):
        words = f"In {horizon_s:g} s the price is up with {up:.0%}, flat with {flat:.0%}, down with {down:.0%}"
        if forecast.volumes_lots:
            buy, sell = forecast.fills[number]
            words += f"; {forecast.volumes_lots[number]:.0f} lots trade; an order at the best price is filled: buy {buy:.0%}, sell {sell:.0%}"
        sentences.append(f"{words}.")
    return " ".join(sentences)
