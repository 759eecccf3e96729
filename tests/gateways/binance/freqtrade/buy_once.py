"""A strategy for freqtrade: it buys each pair once, sells at a gain of one percent, and leaves losses to a stop on the exchange."""

from datetime import datetime
from typing import Any, ClassVar

from freqtrade.persistence import Trade
from freqtrade.strategy import IStrategy
from pandas import DataFrame


class BuyOnce(IStrategy):
    timeframe = "1m"
    minimal_roi: ClassVar[dict[str, float]] = {}
    stoploss = -0.05
    order_types: ClassVar[dict[str, Any]] = {
        "entry": "limit",
        "exit": "limit",
        "stoploss": "limit",
        "stoploss_on_exchange": True,
    }

    def populate_indicators(self, dataframe: DataFrame, metadata: dict[str, Any]) -> DataFrame:
        return dataframe

    def populate_entry_trend(self, dataframe: DataFrame, metadata: dict[str, Any]) -> DataFrame:
        dataframe["enter_long"] = 1
        return dataframe

    def populate_exit_trend(self, dataframe: DataFrame, metadata: dict[str, Any]) -> DataFrame:
        return dataframe

    def confirm_trade_entry(self, pair: str, *arguments: Any, **values: Any) -> bool:
        return not Trade.get_trades_proxy(pair=pair)

    def custom_exit(
        self, pair: str, trade: Trade, current_time: datetime, current_rate: float, current_profit: float, **values: Any
    ) -> str | None:
        return "target" if current_profit > 0.01 else None
