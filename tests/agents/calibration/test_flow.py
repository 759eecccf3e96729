"""The flow trader."""

import numpy as np

from serl.agents.realism.tape import MINUTE_NS, build_tape
from serl.agents.traders.simulate import simulate
from tests.agents.calibration.sample import OPEN_NS, flow

END_NS = OPEN_NS + 20 * MINUTE_NS


def test_the_book_keeps_both_sides_and_the_same_seed_gives_the_same_day() -> None:
    one, two, other = (simulate(flow(), seed, END_NS) for seed in (1, 1, 2))
    assert one.commands.tobytes() == two.commands.tobytes() != other.commands.tobytes()
    tape = build_tape(one)
    assert tape.two_sided[100:].mean() > 0.99
    assert one.reference.counts["requests_dropped"] == 0


def test_wide_spreads_attract_orders_inside() -> None:
    """The spread is wider if few orders go inside it."""
    spreads = []
    for share in (0.02, 0.5):
        tape = build_tape(simulate(flow(inside_share=(share,) * 6), 1, END_NS))
        spreads.append(np.nanmean((tape.ask - tape.bid)[1:][tape.two_sided[1:]]))
    assert spreads[0] > 1.5 * spreads[1]
