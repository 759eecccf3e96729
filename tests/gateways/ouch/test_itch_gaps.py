"""What a gap of the feed costs the users of the gateway: nothing, however long the stream is."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from serl.clients.sockets import Sockets
from serl.exchange.errors import ConfigError
from serl.exchange.symbol_rules import NO_RULES
from serl.exchange.wire import Kind
from serl.gateways.itch import book
from serl.gateways.itch.feed import ItchFeed
from serl.history.itch.messages import decode
from tests.clients.stand_in import StandIn, stand_in

ORDER = [7, 0, 100, 5]


def test_the_stream_is_read_once_and_by_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[tuple[str, bool]] = []

    def noted(message: bytes) -> dict[str, Any]:
        found = decode(message)
        decoded.append((found["type"], threading.current_thread() is threading.main_thread()))
        return found

    monkeypatch.setattr(book, "decode", noted)
    orders = [ORDER]

    async def main() -> None:
        feed = ItchFeed(tmp_path, "tcp://127.0.0.1:9", None, "", print)

        async def ask(kind: Kind, *_: int) -> list[Any]:
            info = (None, [(0, "AMZN", "0.01", "1")], ["live", 1.0, 0, 0], {"qty_lots_max": 100})
            found = {Kind.INFO: info, Kind.STATUS: [0, 2, 0], Kind.L3: list(orders), Kind.RULES: NO_RULES.reply()}
            return [0, 0, 1, 10, 0, found[kind]]

        monkeypatch.setattr(feed, "_ask", ask)
        await feed._learn_symbols()
        for changed in (orders.clear, lambda: orders.append(ORDER), lambda: None):
            await feed._synchronize()
            changed()
        await feed._synchronize()
        assert feed._known.shares == {7: 5}
        await feed.close()

    asyncio.run(main())
    assert [kind for kind, _ in decoded if kind != "H"] == ["A", "D", "A"]
    assert not any(in_loop for _, in_loop in decoded)


def test_sizes_that_itch_cannot_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An order of 6e9 lots was shown as one of 2^32 - 1, of which more was executed then: no book can follow that."""

    async def main() -> None:
        feed = ItchFeed(tmp_path, "tcp://127.0.0.1:9", None, "", print)

        async def ask(*_: int) -> list[Any]:
            return [0, 0, 1, 10, 0, (None, [(0, "AMZN", "0.01", "1")], ["live", 1.0, 0, 0], {"qty_lots_max": 1 << 32})]

        monkeypatch.setattr(feed, "_ask", ask)
        with pytest.raises(ConfigError, match=r"qty_lots_max of at most 4,294,967,295, .* got 4,294,967,296; leave"):
            await feed._learn_symbols()
        await feed.close()

    asyncio.run(main())


def test_why_the_feed_cannot_come_back_is_reported_once(tmp_path: Path) -> None:
    """As after a change of its token: the gateway tried for ever, and no line said why."""

    async def main(exchange: StandIn) -> None:
        lines: list[str] = []
        feed = ItchFeed(tmp_path, exchange.endpoint, None, "", lines.append)
        feed._sockets = Sockets(exchange.endpoint)  # which has sent nothing for long
        running = asyncio.create_task(feed.run())
        for _ in range(3):
            _, number, *_ = await asyncio.to_thread(exchange.arrived, "queries")
            exchange.send(Kind.ERROR, "not_permitted", "this token may not read data", number, socket="queries")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await feed.close()
        assert ["nothing from" in lines[0], *("may not read data" in line for line in lines[1:])] == [True, True], lines

    with stand_in() as exchange:
        asyncio.run(main(exchange))
