"""Pictures of matplotlib, as reports embed them. They need no pyplot, whose backend and open figures belong to the user's program."""

import io
from typing import Any

from serl.exchange.config import time_of_day_text

TIME_STEPS_S, TIMES_MAX = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400), 8
"""Steps between the times that an axis shows, and how many it shows at most."""


def new_figure(width_inches: float, height_inches: float) -> Any:
    """An empty matplotlib Figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def picture(figure: Any, dpi: int = 130) -> bytes:
    """A matplotlib figure as PNG."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=dpi)
    return data.getvalue()


def show_time_of_day(axes: Any) -> None:
    """Labels the x axis of a plot, in hours after midnight, with round times of day. Call it after plotting."""
    from matplotlib.ticker import MultipleLocator

    low, high = axes.get_xlim()
    step_s = next((step for step in TIME_STEPS_S if 3600 * (high - low) <= TIMES_MAX * step), TIME_STEPS_S[-1])
    axes.set_xlabel("time of day")
    axes.xaxis.set_major_locator(MultipleLocator(step_s / 3600))
    axes.xaxis.set_major_formatter(lambda hours, _: time_of_day_text(round(hours * 3600) * 1_000_000_000))
