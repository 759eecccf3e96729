"""Pictures of matplotlib, as reports embed them."""

import io
from typing import Any


def picture(figure: Any, dpi: int = 130) -> bytes:
    """A matplotlib figure as PNG; the figure is closed."""
    import matplotlib.pyplot as plt

    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=dpi)
    plt.close(figure)
    return data.getvalue()
