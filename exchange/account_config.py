"""The configuration of accounts and of fees."""

from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from serl.exchange.invalid import StrictSettings
from serl.exchange.latency import LatencyConfig
from serl.exchange.records import FEE_PPM_MAX, Rule, SelfTrade, Setting

INTEGER_MAX = 1 << 62
"""The largest absolute value of an integer setting: commands and messages have 64 bits for it."""


class Section(StrictSettings):
    """A part of a configuration: unknown settings are errors, and so are numbers that are infinite or do not fit into 64 bits."""

    model_config = ConfigDict(allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _fits(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > INTEGER_MAX:
            raise ValueError("expected an integer within +-2^62")
        return value


class FeesConfig(Section):
    """Fees of a fill in microticks per lot plus millionths of the notional; negative fees are rebates. docs/orders.md, Fees."""

    maker_microticks: int = 0
    maker_ppm: int = Field(0, ge=-FEE_PPM_MAX, le=FEE_PPM_MAX)
    taker_microticks: int = 0
    taker_ppm: int = Field(0, ge=-FEE_PPM_MAX, le=FEE_PPM_MAX)
    auction_microticks: int = 0
    auction_ppm: int = Field(0, ge=-FEE_PPM_MAX, le=FEE_PPM_MAX)

    def rules(self) -> list[tuple[Rule, int]]:
        """The rules and values of the RULE commands that set them."""
        return [(Rule[name.upper()], value) for name, value in self]


class AccountLimits(Section):
    """Limits of an account, 0 = none (docs/orders.md, Accounts), and fees that replace the symbols'."""

    order_lots_max: int = Field(0, ge=0)
    order_notional_max: int = Field(0, ge=0)
    collar_ticks: int = Field(0, ge=0)
    orders_open_max: int = Field(0, ge=0)
    position_lots_max: int = Field(0, ge=0)
    fees: FeesConfig | None = None
    balance_checks: bool = False
    short_sales: bool = False

    @property
    def has_limits(self) -> bool:
        """Whether any limit or fee is set."""
        return bool(self.model_fields_set)

    def settings(self) -> list[tuple[Setting, int]]:
        """The settings and values of the ACCOUNT commands that apply it; none without limits."""
        if not self.has_limits:
            return []
        values = self._values()
        return [(setting, int(values[setting.name.lower()])) for setting in Setting if setting.name.lower() in values]

    def _values(self) -> dict[str, Any]:
        """Values by name, including those of the settings."""
        return self.model_dump() | (self.fees or FeesConfig()).model_dump() | {"own_fees": self.fees is not None}


class AccountConfig(AccountLimits):
    """The account of a participant, with its initial balances. Its latency and message rate replace the exchange's."""

    latency: LatencyConfig | None = None
    messages_per_s_max: float | None = Field(None, ge=0)
    self_trade: Literal["none", "newest", "oldest", "both", "decrement"] = "none"
    balances: dict[str, str] = Field({})

    @property
    def has_limits(self) -> bool:
        """Whether anything is set besides a latency, a message rate and balances, which do not limit orders."""
        fields = self.model_fields_set
        return not fields or not fields <= {"latency", "messages_per_s_max", "balances"}

    def _values(self) -> dict[str, Any]:
        return super()._values() | {"self_trade": SelfTrade[self.self_trade.upper()]}
