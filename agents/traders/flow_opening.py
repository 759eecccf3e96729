"""The start of kinds/neural_flow.py in the middle of a recorded day: the book at that moment, the ages of its orders, and the averages of the past.

The trader sends one order per wake-up, STEP_NS apart, so that an order is identified by the time at which it was sent.
"""

import base64

import numpy as np
from numpy.typing import NDArray

from serl.agents.traders.flow_features import STATE

Floats = NDArray[np.float64]

ORDERS_MAX = 1024
STEP_NS = 65_536
"""Time between two orders of the opening: more than the spacing of any population with fewer traders."""
COLUMNS = SIDE, PRICE_TICKS, LOTS, AGE_NS = range(4)
FIELDS = [("orders_open", "<i8"), ("orders", "<f8", (ORDERS_MAX, len(COLUMNS))), ("state", "<f8", (STATE,))]


def opening_text(orders: Floats, state: Floats) -> str:
    """Encodes an opening for a profile: (n, 4) orders by COLUMNS, in the order of arrival, and the STATE numbers of flow_features.py."""
    return base64.b64encode(np.concatenate([orders.ravel(), state]).astype("<f8").tobytes()).decode()


def read_opening(text: str) -> tuple[Floats, Floats]:
    """Decodes (orders, state) from `opening_text`. Raises ValueError for anything else."""
    numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f8")
    count, rest = divmod(len(numbers) - STATE, len(COLUMNS))
    if not 2 <= count <= ORDERS_MAX or rest or not np.isfinite(numbers).all():
        raise ValueError(
            f"expected 2 to {ORDERS_MAX} orders and {STATE} numbers, all finite, got {len(numbers)} numbers"
        )
    orders = numbers[: count * len(COLUMNS)].reshape(count, len(COLUMNS))
    if not (
        np.isin(orders[:, SIDE], (0, 1)).all()
        and (orders[:, PRICE_TICKS : LOTS + 1] >= 1).all()
        and (orders[:, AGE_NS] >= 0).all()
    ):
        raise ValueError("expected sides of 0 and 1, prices and lots from 1 and ages from 0 on, got others")
    return orders, numbers[count * len(COLUMNS) :]
