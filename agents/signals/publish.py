"""Publishes forecasts as news of kind `signal` while a market runs."""

from collections.abc import Callable, Iterator
from pathlib import Path

from serl.agents.signals.errors import SignalError
from serl.agents.signals.forecaster import Forecaster
from serl.agents.signals.grid import STEP_NS
from serl.agents.signals.live import LiveForecaster, MarketFollower
from serl.agents.signals.message import Forecast
from serl.clients.blocking import Exchange
from serl.clients.replay_news import publish
from serl.exchange.errors import RequestRejected
from serl.exchange.request import request_socket
from serl.exchange.wire import Kind

DAY_S = 86_400
Send = Callable[[Forecast], bool]
"""Publishes a forecast; returns whether the exchange accepted it."""


class Publication:
    """Forecasts of one symbol every `every_s` seconds of the exchange's clock. Iterate `run`."""

    def __init__(
        self,
        client: Exchange,
        forecaster: Forecaster,
        symbol: str,
        every_s: float,
        model: str | None,
        source: str,
        has_keys: bool = False,
    ) -> None:
        self._symbol = symbol
        self._steps = _steps(every_s)
        self._follower = MarketFollower(client, symbol, has_keys)
        self.forecaster = LiveForecaster(forecaster, model, source)
        #: numbers of forecasts that were sent, and that the exchange did not accept because of `news_per_s_max`
        self.published = self.throttled = 0

    @property
    def missed(self) -> int:
        """Number of times left out because the market ran faster than this process."""
        return self._follower.missed

    def run(self, send: Send, from_ns: int = 0, until_ns: int | None = None) -> Iterator[Forecast]:
        """Sends and yields forecasts; follows the market from and until times of the exchange's clock, if given."""
        for seen in self._follower.observations(from_ns, until_ns):
            inputs = self.forecaster.observe(seen)
            if inputs is None or seen.time_ns // STEP_NS % self._steps:
                continue
            forecast = self.forecaster.forecast(self._symbol, seen, inputs)
            if send(forecast):
                self.published += 1
                yield forecast
            else:
                self.throttled += 1


def _steps(every_s: float) -> int:
    """The steps of 100 ms between forecasts. Raises SignalError unless they are whole and at most a day."""
    steps = round(every_s * 1e9 / STEP_NS) if 0 < every_s <= DAY_S else 0
    if steps < 1 or abs(steps * STEP_NS - every_s * 1e9) > 1e3:
        raise SignalError(f"--every: expected a multiple of 0.1 s up to {DAY_S}, got {every_s:g}; give one like 1")
    return steps


def check_rate(client: Exchange, every_s: float) -> None:
    """Raises SignalError if forecasts every `every_s` seconds of a running clock would exceed the exchange's rate of news."""
    kind, speed, *_ = client.session.clock
    most = float(client.session.limits.get("news_per_s_max", 0))
    if kind != "lockstep" and most and speed / every_s > most:
        raise SignalError(
            f"--every: expected at most {most:g} messages per second (news_per_s_max), got {speed / every_s:g} at the clock's speed "
            f"{speed:g}; give {speed / most:.1f} or more"
        )


def publish_to(
    endpoint: str, token: str, curve: Path | None, lockstep: bool, run: Callable[[Send], Iterator[Forecast]]
) -> Iterator[Forecast]:
    """Yields the forecasts that `run` publishes on the exchange. On a lockstep clock, the market waits for a message that the exchange does not accept
    yet."""
    with request_socket(endpoint, "admin", curve, token) as ask:

        def send(forecast: Forecast) -> bool:
            message = forecast.to_news()
            if lockstep:
                publish(ask, token, message)
                return True
            try:
                ask(Kind.PUBLISH_NEWS, token, *message[2:])
            except RequestRejected as error:
                if error.code != "throttled":
                    raise
                return False
            return True

        yield from run(send)
