"""Runs a strategy in process: on a recorded day, or in a population of simulated traders."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.backtest.answering_market import AnsweringMarket
from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.forecasts import Forecasting
from serl.agents.backtest.market import BacktestMarket
from serl.agents.backtest.result import Result, fill_forward
from serl.agents.backtest.strategy import Strategy, check_callbacks, first_wake_ns, interval_ns
from serl.agents.execution.answering.model import NONE, AnsweringDay, answering_day
from serl.agents.realism.days import day_origin, window_text
from serl.agents.traders.build import Crowd
from serl.agents.traders.fees import fill_fees
from serl.agents.traders.population import GroupConfig, PopulationConfig
from serl.agents.traders.records import WAKEUPS
from serl.agents.traders.registry import Kind
from serl.agents.traders.simulate import fingerprint, symbol_references
from serl.agents.traders.symbols import SymbolConfig
from serl.agents.traders.value import ValueConfig
from serl.exchange.config import MarketRules, time_of_day_text
from serl.exchange.latency import Delays
from serl.exchange.reasons import by_name
from serl.exchange.records import EventKind
from serl.history.day import Day, SymbolReference

SECOND_NS = 1_000_000_000
MARKS_MAX = 20_000
QUEUE = "the book's own: an order waits behind what rested before it, and every other order is matched against it"
Progress = Callable[[int], None]
NO_RULES = MarketRules()


def backtest(
    strategy: Strategy | type[Strategy] | Kind, *, population: PopulationConfig | None = None, day: Day | None = None, seed: int = 1,
    window_ns: tuple[int, int] | None = None, delays: Delays | None = None, latency_us: float = 1.0, events_kept: bool = False,
    answers: str = NONE, forecasting: Forecasting | None = None, on_progress: Progress = lambda time_ns: None,
) -> Result:  # fmt: skip
    """Runs a strategy on a recorded day or in a population and returns its result.

    Args:
        strategy: a Strategy or its class, or a compiled kind of trader.
        population, day: give exactly one of them.
        seed: seed of the population.
        window_ns: start and end, ns after midnight; by default the whole day.
        delays: delays of the commands of a Python strategy (docs/latency.md); None: they arrive at the time of the decision.
        latency_us: latency of a compiled strategy, from its wake-up to the exchange.
        events_kept: whether `Result.events` has every event of the run.
        answers: "fitted" or "square_root" for a day that gives way to a Python strategy (docs/answering.md); "none" for one that does not.
        forecasting: makes the forecasts that a Python strategy sees.
        on_progress: called with the time that the market has reached, ns after midnight.

    Raises:
        BacktestError: the strategy, market or window is not valid.
        SimulationError: a trader or a compiled strategy sleeps for no time.
        ConfigError: the day is too short or has too few trades to fit a coefficient.
    """
    _check_strategy(strategy)
    references, span_ns, data = _market(population, day)
    answering = None if answers == NONE else _answering(strategy, day, answers)
    start_ns, end_ns = _window(span_ns, window_ns)
    rules = NO_RULES if population is None else population.market
    rates = [f"{name} {value}" for name, value in rules.fees if value]
    crowd = None if population is None else Crowd(population, seed)
    bots = None
    if isinstance(strategy, Kind):
        if strategy.basket:
            raise BacktestError(
                f"strategy: expected a kind that trades one symbol, got {strategy.name}; put it into a population"
            )
        names, tick = [one.name for one in references], references[0].tick_size
        bots = Crowd(strategy_population(strategy, names, tick, start_ns, end_ns, latency_us, rules), seed)
    shared: dict[str, Any] = {"delays": delays, "events_kept": events_kept}
    if day is not None and answering is not None:
        market: BacktestMarket = AnsweringMarket(day, answering, **shared)
    else:
        history = None if day is None else day.commands
        market = BacktestMarket(references, crowd=crowd, history=history, bots=bots, **shared)
    if forecasting is not None:
        _check_forecasting(forecasting, strategy, day, (start_ns, end_ns))
        market.follow(forecasting, start_ns)
    market.end_ns = end_ns
    marks = mark_times(start_ns, end_ns)
    market.run_until(start_ns)
    began_s = time.perf_counter()
    if bots is None:
        bot: Any = strategy() if isinstance(strategy, type) else strategy
        name, bests, decisions = type(bot).__name__, *_run_python(bot, market, marks, start_ns, on_progress)
        latency: Any = "none" if delays is None else str(delays)
        interval_s = bot.interval_s
    else:
        assert isinstance(strategy, Kind)
        name, bests, decisions = strategy.name, *_run_compiled(bots, market, marks, on_progress)
        latency, interval_s = f"{latency_us:g} us", None
    wall_s = time.perf_counter() - began_s
    fills = market.own_fills()
    settings = {
        "market": data, "seed": seed if day is None else None, "interval_s": interval_s,
        "window": window_text((start_ns, end_ns)), "order latency": latency, "feed latency": "none",
        "queue": QUEUE, "fees": ", ".join(rates) or "none", **({"forecasts": forecasting.source} if forecasting else {}),
    }  # fmt: skip
    if answering is not None:
        settings["answering"] = f"{answers}, {answering.coefficient:.3f} ticks per root lot"
    counts = {
        kind.name.lower(): int(market.counts[kind])
        for kind in (EventKind.ACCEPTED, EventKind.FILL, EventKind.CANCELLED, EventKind.REPLACED, EventKind.REJECTED)
    }
    events = market.events() if events_kept else None
    return Result(
        name, references, fills, marks, fill_forward(bests), decisions, counts, by_name(market.rejections), settings, wall_s, events,
        fill_fees(fills, rules.fees) if rates else None, "" if day is None else day.reference.date,
    )  # fmt: skip


def _check_strategy(strategy: Any) -> None:
    """Raises BacktestError for anything that is not a strategy."""
    if not (isinstance(strategy, Strategy | Kind) or (isinstance(strategy, type) and issubclass(strategy, Strategy))):
        raise BacktestError(
            f"strategy: expected a serl.Strategy, its class, or a kind of trader, got {strategy!r}; load_kind(NAME) of serl.agents.traders.registry "
            "returns the kind of a function with @trader"
        )


def _market(
    population: PopulationConfig | None, day: Day | None
) -> tuple[tuple[SymbolReference, ...], tuple[int, int], str]:
    """Returns (symbols, first and last time, description) of a market."""
    if population is not None and day is None:
        references = symbol_references(population)
        return (
            references,
            (population.open_ns, population.close_ns),
            f"population {population.name} {fingerprint(population)}",
        )
    if day is not None and population is None:
        if not len(day.commands):
            raise BacktestError(
                "expected a day with commands, got an empty one; `serl day info` shows what its source had"
            )
        return (
            day.reference.symbols,
            (int(day.commands["time_ns"][0]), int(day.commands["time_ns"][-1]) + 1),
            day_origin(day),
        )
    got = "neither" if day is None else "both"
    raise BacktestError(f"expected either a population or a day, got {got}; give one of them")


def _answering(strategy: Any, day: Day | None, answers: str) -> AnsweringDay:
    """Determines how far a day gives way. Raises BacktestError if it cannot, and ConfigError as `answering_day`."""
    if day is None:
        raise BacktestError("answering: expected a day, got a population, whose traders react; leave it out")
    if isinstance(strategy, Kind):
        raise BacktestError(
            f"answering: expected a strategy in Python, got the compiled {strategy.name}; leave --answering out"
        )
    if len(day.reference.symbols) != 1:
        names = ", ".join(one.name for one in day.reference.symbols)
        raise BacktestError(f"answering: expected a day with one symbol, got {names}; give a day of one of them")
    if accounts := len(np.unique(day.commands["participant"])) - 1:
        raise BacktestError(
            f"answering: expected a day without accounts, got one with {accounts + 1}; leave --answering out"
        )
    return answering_day(day.commands, answers)


def _check_forecasting(forecasting: Forecasting, strategy: Any, day: Day | None, window_ns: tuple[int, int]) -> None:
    """Raises BacktestError for a compiled strategy, and for a day that the forecaster was trained on; SignalError for one of other sizes."""
    if isinstance(strategy, Kind):
        raise BacktestError(
            f"forecasts: expected a strategy in Python, got the compiled {strategy.name}; leave --forecaster out"
        )
    if day is not None:
        forecasting.check_unseen(day, window_ns)
        forecasting.check_sizes(day)


def _window(span_ns: tuple[int, int], window_ns: tuple[int, int] | None) -> tuple[int, int]:
    """Returns the window, by default the market's whole time. Raises BacktestError if it is outside."""
    if window_ns is None:
        return span_ns
    if (
        not span_ns[0] // SECOND_NS * SECOND_NS
        <= window_ns[0]
        < window_ns[1]
        <= -(-span_ns[1] // SECOND_NS) * SECOND_NS
    ):
        span, got = map(window_text, (span_ns, window_ns))
        raise BacktestError(f"window: expected FROM-TO within {span}, got {got}; choose another window")
    return window_ns


def strategy_population(
    kind: Kind, symbols: list[str], tick_size: str, start_ns: int, end_ns: int, latency_us: float, market: MarketRules = NO_RULES
) -> PopulationConfig:  # fmt: skip
    """A compiled strategy as a population of one trader, whose first wake-up is at `start_ns`. It sees no fundamental value and pays the
    market's fees."""
    return PopulationConfig(
        name=kind.name, symbols=[SymbolConfig(name=name) for name in symbols], tick_size=tick_size, open=time_of_day_text(start_ns),
        close=time_of_day_text(-(-end_ns // SECOND_NS) * SECOND_NS), value=ValueConfig(volatility_ticks_per_root_s=0.0),
        groups=[GroupConfig(trader=kind.name, latency_us=latency_us, start_spread_s=0.0)], market=market,
    )  # fmt: skip


def mark_times(start_ns: int, end_ns: int) -> NDArray[np.int64]:
    """Times at which positions are marked: every second, or every few seconds in a long run, and the end."""
    step_ns = SECOND_NS * max(1, -(-(end_ns - start_ns) // (MARKS_MAX * SECOND_NS)))
    return np.append(np.arange(start_ns + step_ns, end_ns, step_ns), end_ns)


def _run_python(
    strategy: Strategy, market: BacktestMarket, marks: NDArray[np.int64], start_ns: int, on_progress: Progress
) -> tuple[NDArray[np.int64], int]:  # fmt: skip
    """Wakes the strategy until the end; returns (best prices at the marks, number of decisions)."""
    bests = np.zeros((len(marks), len(market.symbols), 2), np.int64)
    times, place, end_ns = marks.tolist(), 0, market.end_ns
    check_callbacks(strategy)
    step_ns = interval_ns(strategy)
    wake_ns = first_wake_ns(start_ns, step_ns)
    decisions, fill, mark_ns = 0, EventKind.FILL, times[0]
    while wake_ns < end_ns:
        while mark_ns <= wake_ns:
            market.run_until(mark_ns)
            market.check_traders()
            bests[place] = market.bests()
            on_progress(mark_ns)
            place += 1
            mark_ns = times[place]
        market.run_until(wake_ns)
        if not decisions:
            strategy.on_start(market)
        for report in market.new_reports():
            if report.kind == fill:
                strategy.on_fill(market, report)
        strategy.on_wake(market)
        decisions += 1
        wake_ns += step_ns
    for late in range(place, len(times)):
        market.run_until(times[late])
        market.check_traders()
        bests[late] = market.bests()
    market.new_reports()
    return bests, decisions


def _run_compiled(
    bots: Crowd, market: BacktestMarket, marks: NDArray[np.int64], on_progress: Progress
) -> tuple[NDArray[np.int64], int]:
    """Runs to the end; returns (best prices at the marks, number of wake-ups)."""
    bests = np.zeros((len(marks), len(market.symbols), 2), np.int64)
    for place, mark_ns in enumerate(marks.tolist()):
        market.run_until(mark_ns)
        market.check_traders()
        bests[place] = market.bests()
        on_progress(mark_ns)
    return bests, int(bots.traders.counter[WAKEUPS])
