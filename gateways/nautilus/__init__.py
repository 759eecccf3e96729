"""NautilusTrader: its strategies trade on a serl exchange, or in its own backtest on serl's days. docs/gateways/nautilus.md

from serl.gateways.nautilus import SerlDataClientConfig, SerlLiveDataClientFactory
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from serl.gateways.nautilus.catalog import Exported as Exported
    from serl.gateways.nautilus.catalog import export_day as export_day
    from serl.gateways.nautilus.config import SerlDataClientConfig as SerlDataClientConfig
    from serl.gateways.nautilus.config import SerlExecClientConfig as SerlExecClientConfig
    from serl.gateways.nautilus.data import SerlDataClient as SerlDataClient
    from serl.gateways.nautilus.execution import SerlExecutionClient as SerlExecutionClient
    from serl.gateways.nautilus.factories import SerlLiveDataClientFactory as SerlLiveDataClientFactory
    from serl.gateways.nautilus.factories import SerlLiveExecClientFactory as SerlLiveExecClientFactory
    from serl.gateways.nautilus.instruments import SERL_VENUE as SERL_VENUE
    from serl.gateways.nautilus.instruments import SymbolUnits as SymbolUnits
    from serl.gateways.nautilus.providers import SerlInstrumentProvider as SerlInstrumentProvider

_MODULES = {
    "serl.gateways.nautilus.catalog": ("export_day", "Exported"),
    "serl.gateways.nautilus.config": ("SerlDataClientConfig", "SerlExecClientConfig"),
    "serl.gateways.nautilus.data": ("SerlDataClient",),
    "serl.gateways.nautilus.execution": ("SerlExecutionClient",),
    "serl.gateways.nautilus.factories": ("SerlLiveDataClientFactory", "SerlLiveExecClientFactory"),
    "serl.gateways.nautilus.providers": ("SerlInstrumentProvider",),
    "serl.gateways.nautilus.instruments": ("SERL_VENUE", "SymbolUnits"),
}
"""The module of each public name, imported on first use, because nautilus_trader is an optional package."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; expected one of {', '.join(_MODULE_OF)}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
