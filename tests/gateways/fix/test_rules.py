"""`lot_multiple` and `tick_table` of the exchange in securities and definitions."""

from pathlib import Path

from tests.gateways.fix.server_fixture import start_gateway
from tests.server_fixture import start_exchange

SYMBOLS = [{"name": "FUND", "lot_size": "0.1", "lot_multiple": 50, "tick_table": {"0": 2, "1000": 5}}, {"name": "AMZN"}]


def test_securities_have_the_round_lot_and_a_tick_size_that_fits_every_price(tmp_path: Path) -> None:
    with (
        start_exchange(symbols="", config={"symbols": SYMBOLS}, folder=tmp_path) as exchange,
        start_gateway(exchange.endpoint, tmp_path, ["alice"]) as gateway,
        gateway.client("alice") as client,
    ):
        client.logon()
        client.send("x", (320, "list"), (559, 4))
        pairs = client.receive_pairs("y")
        assert [pair for pair in pairs if pair[0] in ("55", "561", "872")] == [
            ("55", "FUND"), ("872", "TickSize=0.10"), ("561", "5.0"), ("55", "AMZN"), ("872", "TickSize=0.01"), ("561", "1"),
        ]  # fmt: skip
        client.send("c", (320, "d"), (321, 0), (55, "FUND"))
        assert client.receive("d")["561"] == "5.0"
        client.order("odd", 1, "5.5", "20.10", symbol="FUND")
        assert client.receive("8")["150"] == "8"
        client.order("round", 1, "10", "20.10", symbol="FUND")
        assert client.receive("8")["150"] == "0"
