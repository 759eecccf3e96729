"""A generated flow that continues a recorded day: it starts with the day's book at a given time, and the averages of the messages before it."""

import dataclasses

import numpy as np

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.flow.population import flow_profile, with_profile
from serl.agents.calibration.flow.samples import averages_after
from serl.agents.realism.tape import SECOND_NS, Floats, build_tape, check_levels, history_market, symbol_commands
from serl.agents.traders.flow_network import STARTS
from serl.agents.traders.flow_opening import AGE_NS, COLUMNS, LOTS, ORDERS_MAX, PRICE_TICKS, SIDE, opening_text
from serl.agents.traders.population import PopulationConfig
from serl.exchange.config import time_of_day_text
from serl.exchange.records import Rows
from serl.history.day import Day


def continued(flow: PopulationConfig, day: Day, at_ns: int, name: str) -> PopulationConfig:
    """A population that continues the first symbol of a day from a time on, with a trained flow. Raises CalibrationError unless the population is a flow
    that is still open then and has the day's tick size, and the day has messages until then and a book with both sides; RealismError for a day that shows fewer levels than the flow."""
    profile = flow_profile(flow)
    tick_size = day.reference.symbols[0].tick_size
    if float(tick_size) != float(flow.tick_sizes[0]):
        raise CalibrationError(
            f"{flow.name}: expected the day's tick size, {tick_size}, got {flow.tick_sizes[0]}; train a flow on this symbol"
        )
    if at_ns % SECOND_NS:
        raise CalibrationError("--at: expected a whole second, like 13:00:30; leave out its parts")
    if at_ns >= flow.close_ns:
        raise CalibrationError(
            f"--at: expected a time before the population's close, {flow.close}, got {time_of_day_text(at_ns)}; give an earlier one"
        )
    last_ns = int(day.commands["time_ns"].max(initial=0))
    if at_ns >= last_ns + SECOND_NS:
        raise CalibrationError(
            f"--at: expected a time at which the day has messages, up to {time_of_day_text(last_ns)}, got {time_of_day_text(at_ns)}; give an earlier one"
        )
    kept = day.commands["time_ns"] < at_ns
    before = dataclasses.replace(day, commands=day.commands[kept], rows=day.rows[kept])
    levels = int(np.frombuffer(profile.record()["numbers"], "<f4")[STARTS["visible_levels"]])
    check_levels(day, levels)
    orders = _orders_at(before, at_ns, levels)
    mid_ticks = _mid_ticks(orders, at_ns)
    state = averages_after(build_tape(before, levels), at_ns)
    value = {**flow.value.model_dump(exclude_defaults=True), "mean_ticks": mid_ticks}
    opening = opening_text(orders, state)
    return with_profile(flow, name, {"opening": opening}, open=time_of_day_text(at_ns), value=value)


def _orders_at(before: Day, at_ns: int, levels: int) -> Floats:
    """(n, 4) displayed orders of the best levels after these commands, by age. The age of an order whose arrival the source does not show counts from
    the day's first message."""
    _, commands, _ = symbol_commands(before, None)
    market = history_market(commands)
    market.submit(commands)
    resting = market.orders(0)
    shown = np.concatenate([_best(resting[resting["side"] == side], levels) for side in (0, 1)])
    if len(shown) > ORDERS_MAX:
        raise CalibrationError(
            f"{time_of_day_text(at_ns)}: expected at most {ORDERS_MAX} orders on the best {levels} levels, got {len(shown)}; train with fewer --levels"
        )
    new = np.argsort(commands["command_id"], kind="stable")
    place = new[np.searchsorted(commands["command_id"][new], shown["order_id"])]
    found = np.zeros((len(shown), len(COLUMNS)))
    found[:, SIDE], found[:, PRICE_TICKS], found[:, LOTS] = shown["side"], shown["price_ticks"], shown["open_lots"]
    found[:, AGE_NS] = at_ns - commands["time_ns"][place]
    return found[np.argsort(-found[:, AGE_NS], kind="stable")]


def _best(resting: Rows, levels: int) -> Rows:
    """The orders of the best levels of a side."""
    prices = resting["price_ticks"]
    return resting[np.isin(prices, list(dict.fromkeys(prices.tolist()))[:levels])]


def _mid_ticks(orders: Floats, at_ns: int) -> float:
    sides = [orders[orders[:, SIDE] == side, PRICE_TICKS] for side in (0, 1)]
    if not all(map(len, sides)):
        raise CalibrationError(
            f"{time_of_day_text(at_ns)}: expected a book with both sides, got {len(sides[0])} bids and {len(sides[1])} asks; give another time"
        )
    return float(0.5 * (sides[0].max() + sides[1].min()))
