"""What a client writes into the fields of a row that belong to the exchange never reaches the journal, also of messages that are refused."""

from pathlib import Path

import msgpack
import numpy as np

from serl.exchange.records import COMMAND, CommandKind
from serl.exchange.wire import Kind
from tests.server_fixture import RawClient, start_exchange


def test_sequences_in_a_refused_message_do_not_look_like_damage(tmp_path: Path) -> None:
    with start_exchange(journal=tmp_path / "journal") as served:
        with RawClient(served.endpoint) as client, RawClient(served.endpoint, "queries") as query:
            client.login("forger")
            client.send(1, 1, 0, 0, 1, 100, 1, 0, 0)
            assert client.receive(Kind.REPORTS)[2][0][2] == 1
            query.send(133, 1)
            next_sequence = query.receive()[2] + 1
            rows = np.zeros(64, COMMAND)
            rows["kind"], rows["qty_lots"], rows["price_ticks"] = CommandKind.NEW, 1, 100
            rows["command_id"] = [0, *range(2, 65)]  # the first is refused
            rows["sequence"] = next_sequence + np.arange(64)
            client.socket.send(msgpack.packb([32, rows.tobytes()]))
            assert client.receive(Kind.ERROR)[1] == "malformed"
        served.kill()  # nothing overwrites the rows
    with start_exchange(journal=tmp_path / "journal") as served, RawClient(served.endpoint) as client:
        assert client.login("forger")[5] == 1  # the last command
