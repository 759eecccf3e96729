"""Canceled orders of self-trade prevention, without an exchange."""

from pathlib import Path

import numpy as np
import pytest

from serl.exchange.records import EVENT
from serl.gateways.ouch.messages import outbound
from serl.gateways.ouch.orders import ENTRY, ORDER, OrderTable
from serl.gateways.ouch.outbound import _strategies
from serl.gateways.ouch.restore import restore
from serl.gateways.soup.packets import SEQUENCED, packet
from serl.gateways.soup.stream import StreamLog


def test_the_strategy_is_that_which_the_exchange_followed() -> None:
    rows = np.zeros(4, EVENT)
    rows["command_sequence"] = 1, 2, 3, 3  # the older order lost lots, the newer one, both
    rows["order_number"] = 7, 0, 8, 0
    assert _strategies(rows).astype(np.uint8).tobytes() == b"OWDD"


@pytest.mark.parametrize("missing", [0, 1])
def test_a_stream_of_an_earlier_version_is_restored(tmp_path: Path, missing: int) -> None:
    """Its messages lack the strategy, a byte at their end."""
    table, log = OrderTable(tmp_path / "orders"), StreamLog(tmp_path / "stream")
    entry = np.zeros(1, ENTRY)
    entry["kind"], entry["user_ref"], entry["quantity"], entry["command_id"] = ORDER, 1, 30, 5
    table.index_new(table.stage(entry))
    canceled = outbound("D", 1, 0)
    canceled["user_ref"], canceled["quantity"] = 1, 10
    payload = canceled.tobytes()[3:]
    log.append(packet(SEQUENCED, payload[: len(payload) - missing]), 1)
    restore(table, log)
    assert table.open_shares[0] == 20
    log.close()
    table.close()
