"""Configuration of the exchange: configs/exchange.yaml, overridden by the user's file and the command line."""

import ipaddress
import re
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, ValidationError, field_validator

from serl.exchange.account_config import AccountConfig, AccountLimits, FeesConfig, Section
from serl.exchange.errors import ConfigError
from serl.exchange.invalid import AssetName, describe_invalid, is_set, text_like
from serl.exchange.latency import DefaultLatencyConfig, LatencyConfig
from serl.exchange.limits import check_lots
from serl.exchange.login import LoginConfig, is_name
from serl.exchange.private_files import find_operator_token
from serl.exchange.records import CASH_MAX, FEE_LOTS_MAX, TICK_ENTRIES_MAX
from serl.exchange.rule_limits import check_rules
from serl.exchange.units import duration_s, size_bytes, time_zones
from serl.exchange.yaml_text import parse_shipped, read_settings

DEFAULT_QUOTE = "USD"
RECORDED_HOURS = 48
"""Hours of a recorded day: it counts from midnight UTC of its first row and may continue past the next midnight; 24:30 is half an hour after that."""
SOCKETS = ("orders", "feed", "queries", "admin")
INT32_MAX = (1 << 31) - 1
Seconds = Annotated[float, Field(gt=0, le=1e9)]
"""A duration whose nanoseconds fit into 64 bits, also when they are added to a time."""
Rate = Annotated[float, Field(ge=0, le=1e9)]
"""Units per second; 0 = no limit."""
AUCTION_EVERY_S_MIN = 1e-6
SIZE_EXPONENT_MAX = 30


def _is_quoted(value: Any) -> Any:
    if isinstance(value, int | float):
        raise ValueError('expected a text in quotes, like "16:00", because YAML reads it as a number or a truth value')
    return value


Text = Annotated[str, BeforeValidator(_is_quoted)]
TimeText = Annotated[Text, text_like(r"\d{2}:\d{2}(:\d{2})?", "a time of the day, like 09:30 or 09:30:15")]


class PhaseConfig(Section):
    """When a phase begins."""

    at: TimeText
    phase: Literal["continuous", "pre_open", "opening", "intraday", "volatility", "closing", "closed"]

    @field_validator("at")
    @classmethod
    def _is_time_of_day(cls, value: str) -> str:
        try:
            time_of_day_ns(value)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return value


class MarketRules(Section):
    """Rules of a symbol and its day; docs/orders.md explains them."""

    day: list[PhaseConfig] = Field([])
    auction_every_s: float = Field(0, ge=0, le=1e9)
    volatility_s: Seconds = 300
    lot_multiple: int = Field(1, ge=1)
    tick_table: dict[NonNegativeInt, PositiveInt] = Field({}, max_length=TICK_ENTRIES_MAX)
    matching: Literal["price-time", "pro-rata"] = "price-time"
    band_low_ticks: int = Field(0, ge=0)
    band_high_ticks: int = Field(0, ge=0)
    band_ppm: int | None = Field(None, gt=0, le=1_000_000)
    reference_ticks: int | None = Field(None, gt=0)
    band_action: Literal["reject", "auction"] = "reject"
    fees: FeesConfig = FeesConfig()

    @field_validator("auction_every_s")
    @classmethod
    def _is_interval(cls, value: float) -> float:
        if 0 < value < AUCTION_EVERY_S_MIN:
            raise ValueError(f"expected 0 (none), or an interval from {AUCTION_EVERY_S_MIN:g} s")
        return value


class SymbolConfig(MarketRules):
    """Reference data and rules of one symbol."""

    name: Annotated[AssetName, BeforeValidator(_is_quoted)]
    tick_size: Text = "0.01"
    lot_size: Text = "1"
    base: AssetName | None = None
    quote: AssetName = DEFAULT_QUOTE

    @property
    def reference(self) -> dict[str, str]:
        """The reference data that a journal stores."""
        values = {"name": self.name, "tick_size": self.tick_size, "lot_size": self.lot_size}
        values |= {"base": self.base} if self.base and self.base != self.name else {}
        return values | ({} if self.quote == DEFAULT_QUOTE else {"quote": self.quote})

    @field_validator("tick_size", "lot_size")
    @classmethod
    def _is_positive(cls, value: str) -> str:
        try:
            size = Decimal(value)
            if size > 0 and size.is_finite() and abs(size.adjusted()) <= SIZE_EXPONENT_MAX:
                return value
        except InvalidOperation:
            pass
        raise ValueError(f"expected a positive decimal number like '0.01', got {value!r}")


class ClockConfig(Section):
    """The clock of the exchange."""

    kind: Literal["live", "scaled", "lockstep"] = "live"
    speed: float | None = Field(None, gt=0, le=1e6)
    start: TimeText = "00:00:00"
    held: bool = False
    participants: int = Field(0, ge=0)

    @property
    def start_ns(self) -> int:
        """The start time in nanoseconds after midnight; 0 for a live clock, which cannot be set."""
        return 0 if self.kind == "live" else time_of_day_ns(self.start)

    @property
    def effective_speed(self) -> float:
        """Exchange seconds per second; 0: a lockstep clock runs as fast as its participants allow."""
        if self.kind == "live" or self.speed is None:
            return 0.0 if self.kind == "lockstep" else 1.0
        return self.speed


class RetentionConfig(Section):
    """How long, or up to what size, commands and events are kept that a restart no longer needs; null: without limit."""

    size: str | None = None
    age: str | None = None
    archive: Path | None = None

    @field_validator("size")
    @classmethod
    def _is_size(cls, value: str | None) -> str | None:
        if value is not None:
            size_bytes(value)
        return value

    @field_validator("age")
    @classmethod
    def _is_age(cls, value: str | None) -> str | None:
        if value is not None:
            duration_s(value)
        return value

    @property
    def is_limited(self) -> bool:
        """Whether old files are ever removed."""
        return self.size is not None or self.age is not None

    def exceeded(self, total_bytes: int, age_s: float) -> bool:
        """Whether to remove the oldest file: the journal is too large, or the file too old."""
        too_large = self.size is not None and total_bytes > size_bytes(self.size)
        return too_large or (self.age is not None and age_s > duration_s(self.age))


class JournalConfig(Section):
    """The journal of the exchange."""

    folder: Path | None = None
    segment_rows: int = Field(262_144, ge=8192, le=1 << 26)
    flush_s: Seconds = 1.0
    durability: Literal["interval", "batch"] = "interval"
    compress: bool = True
    retention: RetentionConfig = RetentionConfig()


class LimitsConfig(Section):
    """Limits of every queue, message and table."""

    sessions_max: int = Field(256, ge=1, le=65_536)
    participants_max: int = Field(1024, ge=1, le=65_534)
    message_bytes_max: int = Field(131_072, ge=1024, le=1 << 24)
    bulk_rows_max: int = Field(1024, ge=1, le=65_536)
    session_out_bytes: int = Field(65_536, ge=1024, le=1 << 24)
    outbound_messages_max: int = Field(1000, ge=1, le=INT32_MAX)
    connections_max: int = Field(1024, ge=1, le=1 << 20)
    unread_bytes_max: int = Field(1 << 24, ge=1 << 20)
    request_bytes_max: int = Field(4096, ge=256, le=1 << 20)
    replies_unread_max: int = Field(100, ge=1, le=INT32_MAX)
    replies_unread_bytes_max: int = Field(1 << 25, ge=1 << 16)
    requests_share: float = Field(0.05, gt=0, le=1)
    snapshot_orders_max: int = Field(100_000, ge=1)
    subscription_bytes_max: int = Field(256, ge=64, le=1 << 16)
    unknown_topics_max: int = Field(64, ge=0)
    repeated_subscriptions_per_s_max: Rate = 20
    control_messages_per_s_max: Rate = 200
    resent_rows_max: int = Field(262_144, ge=1)
    new_names_per_s_max: Rate = 10
    cancels_per_s_max: Rate = 0
    replay_reports_max: int = Field(1_000_000, ge=0)
    staged_rows_max: int = Field(262_144, ge=1024, le=1 << 26)
    staged_rows_per_participant_max: int = Field(32_768, ge=1, le=1 << 26)
    lockstep_ahead_s_max: Seconds = 604_800
    messages_per_s_max: Rate = 0
    qty_lots_max: int = Field(1_000_000, ge=1, le=1 << 40)
    price_ticks_max: int = Field(1_000_000_000, ge=1, le=1 << 40)
    orders_open_max: int = Field(1 << 23, ge=1, le=1 << 27)
    levels_max: int = Field(65_536, ge=1, le=1 << 24)
    display_divisor_max: int = Field(1000, ge=0, le=1 << 40)
    window_ticks: int = Field(4096, ge=128, le=1 << 20)
    trades_kept: int = Field(1000, ge=1)
    depth_max: int = Field(10_000, ge=1)
    news_bytes_max: int = Field(4096, ge=1, le=1 << 16)
    news_per_s_max: Rate = 100
    news_kept: int = Field(10_000, ge=1)


class IntervalsConfig(Section):
    """Intervals and timeouts."""

    heartbeat_s: Seconds = 1.0
    silence_s: Seconds = 30.0
    turn_ms: int = Field(5, ge=1, le=1000)
    time_s: Seconds = 1.0
    drain_messages: int = Field(1024, ge=1, le=INT32_MAX)


RESERVED_ROWS = 1024
"""Rows at the end of each command segment for the exchange's own commands and for cancellations while the disk is full."""


class ExchangeConfig(Section):
    """The whole configuration of `serl exchange start`."""

    symbols: list[SymbolConfig] = Field(min_length=1, max_length=65_534)
    accounts: dict[str, AccountConfig] = Field({})
    other_accounts: AccountLimits = AccountLimits()
    latency: DefaultLatencyConfig = DefaultLatencyConfig()
    time_zone: str = "UTC"
    full_rule_book: bool = False
    endpoint: str = "tcp://127.0.0.1:5570"
    clock: ClockConfig = ClockConfig()
    journal: JournalConfig = JournalConfig()
    login: LoginConfig = LoginConfig()
    limits: LimitsConfig = LimitsConfig()
    intervals: IntervalsConfig = IntervalsConfig()

    @property
    def needs_full_rule_book(self) -> bool:
        """Whether the full rule book is loaded at the start, rather than by the first order that needs it."""
        default_rules = all(symbol == SymbolConfig.model_validate(symbol.reference) for symbol in self.symbols)
        limited = any(account.has_limits for account in (self.other_accounts, *self.accounts.values()))
        return self.full_rule_book or limited or not default_rules

    @property
    def latencies(self) -> dict[str, LatencyConfig]:
        """The latencies of participants that have their own, by name."""
        return {name: account.latency for name, account in self.accounts.items() if account.latency is not None}

    def messages_per_s_max(self, name: str) -> float:
        """The message rate limit of a participant's sessions; 0: no limit."""
        account = self.accounts.get(name)
        own = None if account is None else account.messages_per_s_max
        return self.limits.messages_per_s_max if own is None else own

    @field_validator("time_zone")
    @classmethod
    def _is_time_zone(cls, value: str) -> str:
        if value not in time_zones():
            raise ValueError(f"expected a time zone like UTC or America/New_York, got {value!r}")
        return value

    @property
    def endpoints(self) -> dict[str, str]:
        """The endpoint of each socket."""
        return socket_endpoints(self.endpoint)


def time_of_day_ns(text: str, option: str = "", hours: int = 24) -> int:
    """Converts '10:30' or '10:30:15' to nanoseconds after midnight. For anything else raises ConfigError, which names the option if there is one.
    hours: of the day; RECORDED_HOURS in a recorded one."""
    match = re.fullmatch(r"(\d{2}):(\d{2})(?::(\d{2}))?", text)
    if not match or int(match[1]) >= hours or int(match[2]) > 59 or int(match[3] or 0) > 59:
        where = f"{option}: " if option else ""
        raise ConfigError(f"{where}expected a time of day like 10:30 or 10:30:15, got {text!r}")
    return (int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)) * 1_000_000_000


def time_of_day_text(time_ns: int) -> str:
    """Formats nanoseconds after midnight to the second: 10:30:15."""
    seconds = time_ns // 1_000_000_000
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def socket_endpoints(orders: str) -> dict[str, str]:
    """The endpoints of the four sockets, from the orders endpoint `tcp://HOST:PORT`; the others use the next three ports."""
    match = re.fullmatch(r"tcp://(.+):(\d+)", orders)
    if not match or not 0 < int(match[2]) <= 65_532:
        raise ConfigError(f"expected an endpoint like tcp://127.0.0.1:5570 (port up to 65532), got {orders!r}")
    return {name: f"tcp://{match[1]}:{int(match[2]) + offset}" for offset, name in enumerate(SOCKETS)}


def endpoint_port(endpoint: str) -> int:
    """The port of an endpoint `tcp://HOST:PORT`. Raises ConfigError for an endpoint without one."""
    port = endpoint.rpartition(":")[2]
    if not re.fullmatch(r"[0-9]{1,5}", port):
        raise ConfigError(f"expected an endpoint like tcp://127.0.0.1:5570, got {endpoint!r}; give a port")
    return int(port)


def is_loopback(endpoint: str) -> bool:
    """Whether only this machine can reach an endpoint."""
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def local_operator_token(endpoint: str) -> str:
    """The operator credential of this user's exchange at a loopback endpoint; "" if there is no exchange, or it belongs to another user."""
    return find_operator_token(endpoint_port(endpoint)) if is_loopback(endpoint) else ""


def load_config(
    path: Path | None = None, overrides: dict[str, Any] | None = None, defaults: dict[str, Any] | None = None
) -> ExchangeConfig:
    """Loads the shipped defaults, overridden by `defaults` (nested), the file at `path`, then `overrides` (nested). A ConfigError names what is invalid."""
    values = _overlay(parse_shipped((files("serl.configs") / "exchange.yaml").read_text()), defaults or {})
    if path is not None:
        values = _overlay(values, read_settings(path, "configs/exchange.yaml"))
    values = _overlay(values, overrides or {})
    try:
        config = ExchangeConfig.model_validate(values)
    except ValidationError as error:
        where = "" if path is None or is_set(overrides, error.errors()[0]["loc"]) else f"{path}: "
        raise ConfigError(where + describe_invalid(error, ExchangeConfig, most=1, secret={"login"})) from None
    _check_consistency(config)
    return config


def _overlay(base: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in overrides.items():
        merges = isinstance(value, dict) and isinstance(base.get(key), dict) and key not in ("tokens", "participants")
        merged[key] = _overlay(base[key], value) if merges else value
    return merged


def _check_consistency(config: ExchangeConfig) -> None:
    names = [symbol.name for symbol in config.symbols]
    duplicates = {name for name in names if names.count(name) > 1}
    if duplicates:
        raise ConfigError(f"symbols: expected each name once, got {sorted(duplicates)} more than once")
    for endpoint in config.endpoints.values():
        if not is_loopback(endpoint) and config.login.curve_keys is None:
            raise ConfigError(
                f"endpoint: expected a loopback address without login.curve_keys, got {endpoint}, which other machines can reach; "
                "use tcp://127.0.0.1:5570, or create keys with `serl keys new` and give them with --curve"
            )
    if config.clock.held and (config.clock.kind == "live" or not config.clock.effective_speed):
        raise ConfigError(
            f"clock.held: expected a scaled clock, or a lockstep clock with a speed, got {config.clock.kind}{' without one' * (config.clock.kind != 'live')}; "
            "use --clock scaled:30 or lockstep:30 for example"
        )
    if config.journal.retention.archive is not None and not config.journal.retention.is_limited:
        raise ConfigError(
            "journal.retention.archive: expected size or age with it, got neither; set when files move there"
        )
    window = config.limits.window_ticks
    if window & (window - 1):
        raise ConfigError(f"limits.window_ticks: expected a power of two, got {window}")
    largest = config.limits.qty_lots_max * config.limits.price_ticks_max
    if largest > CASH_MAX:
        raise ConfigError(
            f"limits: expected qty_lots_max x price_ticks_max of at most 2^53, as a float holds them exactly, got {largest}"
        )
    check_lots(config.limits.qty_lots_max, config.limits.orders_open_max)
    for symbol in config.symbols:
        check_rules(symbol, config.limits)
    for name in config.accounts:
        if not is_name(name):
            raise ConfigError(f"accounts: expected names of 1 to 64 printable bytes, got {name[:80]!r}")
    fee_max = FEE_LOTS_MAX // config.limits.qty_lots_max
    schedules = {f"symbols.{symbol.name}": symbol.fees for symbol in config.symbols}
    accounts = {f"accounts.{name}": account for name, account in config.accounts.items()}
    schedules |= {
        name: account.fees
        for name, account in ({"other_accounts": config.other_accounts} | accounts).items()
        if account.fees
    }
    for owner, fees in schedules.items():
        for rule, value in fees.rules():
            if abs(value) > fee_max:
                raise ConfigError(
                    f"{owner}.fees.{rule.name.lower()}: expected -{fee_max} to {fee_max} (2^62 / qty_lots_max), so that a fee "
                    f"cannot overflow, got {value}"
                )
    if config.limits.bulk_rows_max > config.limits.staged_rows_per_participant_max:
        raise ConfigError(
            f"limits.staged_rows_per_participant_max: expected at least {config.limits.bulk_rows_max}, the rows of one message "
            f"(bulk_rows_max), got {config.limits.staged_rows_per_participant_max}"
        )
    if config.limits.bulk_rows_max > config.journal.segment_rows - RESERVED_ROWS:
        raise ConfigError(
            f"journal.segment_rows: expected at least {config.limits.bulk_rows_max + RESERVED_ROWS} for messages of {config.limits.bulk_rows_max} rows "
            f"(bulk_rows_max), got {config.journal.segment_rows}"
        )
    if config.limits.bulk_rows_max * 64 + 16 > config.limits.message_bytes_max:
        raise ConfigError(
            f"limits.message_bytes_max: expected at least {config.limits.bulk_rows_max * 64 + 16} bytes for "
            f"{config.limits.bulk_rows_max} bulk rows (bulk_rows_max), got {config.limits.message_bytes_max}"
        )
