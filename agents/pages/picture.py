"""Pictures of matplotlib, as reports embed them. They need no pyplot, whose backend and open figures belong to the user's program."""

import io
from typing import Any


def new_figure(width_inches: float, height_inches: float) -> Any:
    """An empty matplotlib Figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def picture(figure: Any, dpi: int = 130) -> bytes:
    """A matplotlib figure as PNG."""
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=dpi)
    return data.getvalue()
