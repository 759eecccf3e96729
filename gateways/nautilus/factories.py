"""Factories with which a `TradingNode` creates the live clients."""

import asyncio
from typing import Any

from nautilus_trader.cache.cache import Cache
from nautilus_trader.common.component import LiveClock, MessageBus
from nautilus_trader.live.factories import LiveDataClientFactory, LiveExecClientFactory

from serl.gateways.nautilus.config import SerlDataClientConfig, SerlExecClientConfig
from serl.gateways.nautilus.data import SerlDataClient
from serl.gateways.nautilus.execution import SerlExecutionClient
from serl.gateways.nautilus.link import Address, Link, link_for
from serl.gateways.nautilus.providers import SerlInstrumentProvider


class SerlLiveDataClientFactory(LiveDataClientFactory):
    """Creates `SerlDataClient`s."""

    @staticmethod
    def create(
        loop: asyncio.AbstractEventLoop, name: str | None, config: SerlDataClientConfig, msgbus: MessageBus, cache: Cache, clock: LiveClock,
    ) -> SerlDataClient:  # fmt: skip
        """Creates a data client; it shares its connection with the execution client of the same endpoint and participant."""
        link = _link(loop, config)
        provider = SerlInstrumentProvider(link, config.currency, config.instrument_provider)
        return SerlDataClient(loop, link, msgbus, cache, clock, provider, config, name)


class SerlLiveExecClientFactory(LiveExecClientFactory):
    """Creates `SerlExecutionClient`s."""

    @staticmethod
    def create(
        loop: asyncio.AbstractEventLoop, name: str | None, config: SerlExecClientConfig, msgbus: MessageBus, cache: Cache, clock: LiveClock,
    ) -> SerlExecutionClient:  # fmt: skip
        """Creates an execution client."""
        link = _link(loop, config)
        link.is_replayed, link.cancel_on_disconnect = config.is_replayed, config.cancel_on_disconnect
        provider = SerlInstrumentProvider(link, config.currency, config.instrument_provider)
        return SerlExecutionClient(loop, link, msgbus, cache, clock, provider, config, name)


def _link(loop: asyncio.AbstractEventLoop, config: Any) -> Link:
    return link_for(loop, Address(config.endpoint, config.participant, config.token, config.curve))
