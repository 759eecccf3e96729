"""The instruments of an exchange."""

from typing import Any

from nautilus_trader.common.providers import InstrumentProvider
from nautilus_trader.config import InstrumentProviderConfig

from serl.clients.session import Instrument
from serl.exchange.errors import ConfigError
from serl.gateways.nautilus.instruments import SERL_VENUE, SymbolUnits, instrument_of
from serl.gateways.nautilus.link import Link


class SerlInstrumentProvider(InstrumentProvider):
    """Loads the symbols of the exchange that a link is connected to; all of them, unless the configuration names some."""

    def __init__(self, link: Link, currency: str, config: InstrumentProviderConfig | None = None) -> None:
        config = config or InstrumentProviderConfig()
        super().__init__(config if config.load_ids else InstrumentProviderConfig(load_all=True, filters=config.filters))
        self._link, self._currency = link, currency
        #: units of each symbol, by its instrument's id
        self.units: dict[Any, SymbolUnits] = {}
        #: instrument and units by the symbol's number
        self.numbered: dict[int, tuple[Any, SymbolUnits]] = {}

    async def load_all_async(self, filters: dict[str, Any] | None = None) -> None:
        """Loads every symbol."""
        for symbol in self._link.session.instruments.values():
            await self._load(symbol)

    async def load_ids_async(self, instrument_ids: list[Any], filters: dict[str, Any] | None = None) -> None:
        """Loads these instruments. Raises ConfigError for one of another venue, and UnknownSymbol."""
        for one in instrument_ids:
            await self.load_async(one, filters)

    async def load_async(self, instrument_id: Any, filters: dict[str, Any] | None = None) -> None:
        """Loads one instrument; see `load_ids_async`."""
        if instrument_id.venue != SERL_VENUE:
            raise ConfigError(f"expected an instrument of the venue {SERL_VENUE}, got {instrument_id}")
        await self._load(self._link.session.instrument(instrument_id.symbol.value))

    async def _load(self, symbol: Instrument) -> None:
        now_ns = self._link.unix_ns(int(self._link.session.clock[2]))
        rules = await self._link.exchange.rules(symbol.name)
        instrument = instrument_of(symbol.name, symbol.tick_size, symbol.lot_size, self._currency, now_ns, rules)
        units = SymbolUnits.of(symbol.name, symbol.tick_size, symbol.lot_size)
        self.add(instrument)
        self.add_currency(instrument.quote_currency)
        self.units[instrument.id] = units
        self.numbered[symbol.number] = instrument, units
