"""Responses of a replayed day to the parent orders of a validity check, at several start times. Nobody reacts in a replay, but the day may give
way (docs/answering.md)."""

from collections.abc import Callable, Iterator

import numpy as np

from serl.agents.execution.answering.model import NONE, answering_day
from serl.agents.execution.environment.hours import lot_multiple
from serl.agents.execution.environment.windows import nearest_multiples
from serl.agents.execution.order import ParentOrder
from serl.agents.impact.replay import MidPath, check_end, execute_commands, execute_parent
from serl.agents.impact.responses import (
    CHILDREN,
    STEPS,
    Responses,
    Trial,
    check_settings,
    collect_responses,
    plan_trials,
    reading_times,
    sigma,
)
from serl.agents.realism.errors import EmptyWindow, NoTwoSidedBook
from serl.agents.realism.tape import SECOND_NS, Floats, Ints, symbol_commands
from serl.exchange.config import time_of_day_text
from serl.exchange.records import Rows, Side
from serl.history.day import Day


def replayed_responses(
    day: Day, shares: list[float], starts: int, duration_s: float, window: tuple[int, int] | None = None,
    symbol: str | None = None, on_replay: Callable[[], None] = lambda: None, answers: str = NONE,
) -> Responses:  # fmt: skip
    """Works the same orders on a replayed day at `starts` evenly spaced times; the last reading is at the window's end.

    Sizes are shares of what history executes during the order. window: ns after midnight; None: from a minute after the first command to the last.
    answers: see `answering_days`. Raises EmptyWindow if the window is too short or ends after the day, NoTwoSidedBook without a mid, and ImpactError as check_settings.
    """
    sizes = check_settings(shares, starts, duration_s)
    name, commands, _ = symbol_commands(day, symbol)
    if window is not None:
        check_end(name, commands, window)
    answering = None if answers == NONE else answering_day(commands, answers)
    without, _ = execute_commands(commands)
    starts_ns = _start_times(commands, window, starts, duration_s)
    times_ns = np.array([reading_times(start_ns, duration_s) for start_ns in starts_ns.tolist()])
    base = without.mid_before(times_ns)
    if not np.isfinite(base).all():
        raise NoTwoSidedBook(f"{name}: expected a bid and an ask at every start, got none; give a later --window")
    traded = np.array([_executed_lots(without, times[0], times[STEPS]) for times in times_ns])
    interval_ns, multiple = round(duration_s * SECOND_NS / CHILDREN), lot_multiple(commands)

    def run(trials: list[Trial]) -> Iterator[tuple[Trial, Floats, float]]:
        for trial in trials:
            times = times_ns[trial.run, trial.readings]
            lots = int(nearest_multiples(sizes[trial.size] * traded[trial.run], multiple))
            slice_ns = round(trial.factor * interval_ns)
            start_ns = int(starts_ns[trial.run]) + slice_ns
            side = Side.BUY if trial.side > 0 else Side.SELL
            order = ParentOrder(name, side, lots, start_ns, start_ns + CHILDREN * slice_ns, slice_ns)
            until = int(np.searchsorted(commands["time_ns"], times[-1]))
            path, filled_lots = execute_parent(commands[:until], order, multiple, answering)
            on_replay()
            yield trial, path.mid_before(times), filled_lots / lots

    impact, by_duration, filled = collect_responses(run(plan_trials(starts, len(sizes))), base, len(sizes))
    return Responses(
        f"{name}, {'replayed' if answering is None else 'answering'}", "start times", sizes, duration_s, float(traded.mean()),
        sigma(base), impact, by_duration, filled, "" if answering is None else answering.describe(),
    )  # fmt: skip


def _start_times(commands: Rows, window: tuple[int, int] | None, starts: int, duration_s: float) -> Ints:
    """[start] evenly spaced times. Raises EmptyWindow if a start and its readings do not fit."""
    first_ns, last_ns = window or (int(commands["time_ns"][0]) + 60 * SECOND_NS, int(commands["time_ns"][-1]))
    latest_ns = last_ns - int(reading_times(0, duration_s)[-1])
    if latest_ns <= first_ns:
        raise EmptyWindow(
            f"window: expected more than {(last_ns - latest_ns) / SECOND_NS:g} s for an order of {duration_s:g} s and its decay, got "
            f"{time_of_day_text(first_ns)}-{time_of_day_text(last_ns)}; give a longer window or a shorter --duration"
        )
    return np.linspace(first_ns, latest_ns, starts).astype(np.int64)


def _executed_lots(path: MidPath, start_ns: int, end_ns: int) -> int:
    return int(path.traded_lots[(path.time_ns >= start_ns) & (path.time_ns < end_ns)].sum())
