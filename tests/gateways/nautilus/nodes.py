"""Live nodes of NautilusTrader on a served exchange."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

WAIT_S = 20.0


@asynccontextmanager
async def live_node(
    endpoint: str,
    *strategies: Any,
    participant: str = "nautilus",
    token: str = "",
    inflight_ms: int = 5000,
    **exec_options: Any,
) -> AsyncIterator[Any]:
    """A running `TradingNode` on an exchange, connected and reconciled, whose strategies have started."""
    from serl.gateways.nautilus import (
        SerlDataClientConfig,
        SerlExecClientConfig,
        SerlLiveDataClientFactory,
        SerlLiveExecClientFactory,
    )

    data = SerlDataClientConfig(endpoint=endpoint, participant=participant, token=token)
    execution = SerlExecClientConfig(endpoint=endpoint, participant=participant, token=token, **exec_options)
    factories = SerlLiveDataClientFactory, SerlLiveExecClientFactory
    async with running_node("SERL", data, execution, factories, *strategies, inflight_ms=inflight_ms) as node:
        yield node


@asynccontextmanager
async def running_node(
    name: str, data: Any, execution: Any, factories: tuple[Any, Any], *strategies: Any, inflight_ms: int = 5000
) -> AsyncIterator[Any]:
    """A running `TradingNode` with these configurations of its clients, connected and reconciled, whose strategies have started."""
    from nautilus_trader.config import LiveExecEngineConfig, LoggingConfig, TradingNodeConfig
    from nautilus_trader.live.node import TradingNode

    config = TradingNodeConfig(
        trader_id="TESTER-001",
        logging=LoggingConfig(log_level="WARNING"),
        exec_engine=LiveExecEngineConfig(
            reconciliation_startup_delay_secs=0.1,
            inflight_check_interval_ms=inflight_ms,
            inflight_check_threshold_ms=inflight_ms,
            inflight_check_retries=1,
        ),
        data_clients={name: data},
        exec_clients={name: execution},
        timeout_connection=20.0,
        timeout_disconnection=5.0,
        timeout_post_stop=0.1,
    )
    node = TradingNode(config=config, loop=asyncio.get_running_loop())
    for strategy in strategies:
        node.trader.add_strategy(strategy)
    node.add_data_client_factory(name, factories[0])
    node.add_exec_client_factory(name, factories[1])
    node.build()
    running = asyncio.create_task(node.run_async())
    try:
        await until(lambda: node.trader.is_running, running)
        yield node
    finally:
        await node.stop_async()
        await asyncio.wait_for(running, WAIT_S)
        for engine in (node.kernel.data_engine, node.kernel.risk_engine, node.kernel.exec_engine):
            engine.dispose()


async def until(holds: Callable[[], Any], running: "asyncio.Task[None] | None" = None, wait_s: float = WAIT_S) -> None:
    """Returns when a condition holds; fails after `wait_s`, or with the node."""
    deadline_s = time.monotonic() + wait_s
    while not holds():
        if running is not None and running.done():
            running.result()
            raise AssertionError("the node ended")
        assert time.monotonic() < deadline_s, "the condition did not hold in time"
        await asyncio.sleep(0.01)
