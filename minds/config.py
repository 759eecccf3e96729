"""Settings of LLM traders; docs/minds.md explains them."""

from datetime import date
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from serl.agents.traders.builtin import MINDS, read_yaml
from serl.exchange.config import time_of_day_ns
from serl.exchange.invalid import StrictSettings, describe_invalid, text_like
from serl.minds.errors import MindsConfigError
from serl.researcher.llm.settings import Endpoint

Name = Annotated[
    str, text_like(r"[A-Za-z][A-Za-z0-9_-]{0,31}", "a letter and up to 31 letters, digits, hyphens or underscores")
]
TIME = r"\d{2}:\d{2}(:\d{2})?"
MINDS_MAX = 500
SECOND_NS = 1_000_000_000
SPAN_S_MAX = 366 * 86_400
"""Longest run, and longest time between two decisions."""
LOAN_RATE_MAX = 10.0
NO_MONEY, MONEY_MAX = Decimal(0), Decimal(10**15)
TEXT_LENGTH_MAX = 200


class PersonaConfig(StrictSettings):
    """A kind of mind: its character, and what each mind of this kind starts with."""

    name: Name = Field(description="its minds are the participants NAME-0, NAME-1, ...")
    count: int = Field(1, ge=1, le=MINDS_MAX, description="number of minds")
    risk: Literal["averse", "neutral", "seeking"] = Field("neutral", description="attitude to risk")
    style: str = Field("value investing", min_length=1, max_length=200, description="how it trades, in words")
    horizon: str = Field("days", min_length=1, max_length=100, description="how long it holds, in words")
    text: str = Field("", max_length=1000, description="further words about it")
    every: int = Field(1, ge=1, description="decides at every n-th decision time")
    decides: Literal["model", "random"] = Field(
        "model", description="random: draws uniformly among what is possible, a baseline"
    )
    cash: Decimal = Field(
        Decimal(100_000), ge=NO_MONEY, le=MONEY_MAX, description="money at the start, its loan not included"
    )
    shares: dict[str, int] = Field({}, description="lots at the start, by symbol")
    loan: Decimal = Field(NO_MONEY, ge=NO_MONEY, le=MONEY_MAX, description="money borrowed at the start; needs `loans`")

    @model_validator(mode="after")
    def _shares_are_positive(self) -> "PersonaConfig":
        for symbol, lots in self.shares.items():
            if not 0 <= lots <= 10**12:
                raise ValueError(f"shares: expected 0 or more lots of {symbol}, got {lots}; minds cannot start short")
        return self


class LayerConfig(StrictSettings):
    """One layer of the memory, in FinMem's terms."""

    stability: float = Field(gt=0, description="Q: recency is exp(-age / Q), age in decisions")
    importance_decay: float = Field(gt=0, le=1, description="α: importance is multiplied by it at each decision")
    promote_at: float | None = Field(None, ge=0, description="importance from which a memory moves to the next layer")
    size_max: int = Field(50, ge=1, description="number of memories; beyond it the lowest score is forgotten")


class MemoryConfig(StrictSettings):
    """The layered memory. The defaults are FinMem's, with a decision in place of a day."""

    working: LayerConfig = LayerConfig(stability=14, importance_decay=0.9, promote_at=60)
    short: LayerConfig = LayerConfig(stability=90, importance_decay=0.967, promote_at=80)
    long: LayerConfig = LayerConfig(stability=365, importance_decay=0.988)
    top_k: int = Field(3, ge=0, le=20, description="memories of each layer in a prompt")
    reflect_every: int = Field(10, ge=0, description="decisions between two reflections; 0: none")


class LoansConfig(StrictSettings):
    """Loans: how much minds may borrow, and at which rate."""

    rate_per_year: float = Field(
        0.05, ge=0, le=LOAN_RATE_MAX, description="interest; events of kind loan_rate change it"
    )
    rate_source: str = Field("", description="macro news of this source change the rate to their value")
    share_max: float = Field(0.5, ge=0, le=10, description="largest loan, as a share of the mind's wealth")


class BudgetConfig(StrictSettings):
    """Limits on what may be spent on a model. An answer that is requested twice counts once."""

    tokens_max: int | None = Field(None, gt=0, description="prompt and completion tokens, the next call included")
    calls_max: int | None = Field(None, gt=0)


class MindsConfig(StrictSettings):
    """A group of LLM traders on one exchange."""

    name: Name = "minds"
    model: str | None = Field(None, description="tiny, coder or a GGUF file, served on this machine for the run")
    endpoint: Endpoint | None = Field(None, description="an OpenAI-compatible endpoint, instead of `model`")
    threads: int = Field(1, ge=1, description="processor threads of `model`")
    slots: int = Field(1, ge=1, le=64, description="answers that `model` generates side by side")
    servers: int = Field(
        1, ge=1, le=64, description="processes that serve `model`, each with so many threads and slots"
    )
    parallel: int = Field(8, ge=1, le=256, description="calls at a time")
    temperature: float = Field(0.7, ge=0, le=2)
    text_length_max: int = Field(
        TEXT_LENGTH_MAX, ge=1, le=TEXT_LENGTH_MAX, description="characters of a reason, and of a post"
    )
    answer_tokens: int = Field(256, ge=32, le=8192, description="longest answer; a longer one is refused as truncated")
    seed: int = Field(1, ge=0)
    shared_answers: bool = Field(False, description="one seed for all minds: equal prompts have one answer, asked once")
    personas: tuple[PersonaConfig, ...] = Field(min_length=1)
    symbols: tuple[str, ...] = Field((), description="what the minds trade; by default all symbols of the exchange")
    prices: dict[str, Annotated[Decimal, Field(gt=0, le=MONEY_MAX)]] = Field(
        {}, description="prices of symbols that have neither traded nor quotes yet"
    )
    hours: Annotated[str, text_like(f"{TIME}-{TIME}", "hours like 09:30-16:00")] | None = Field(
        None, description="when they trade, in exchange time"
    )
    days: int = Field(1, ge=1, le=366, description="number of days, with `hours`")
    duration_s: float | None = Field(
        None, gt=0, le=SPAN_S_MAX, description="how long they trade, from now on, instead of `hours`"
    )
    interval_s: float = Field(60.0, ge=0.001, le=SPAN_S_MAX, description="time between two decisions")
    anonymous: bool = Field(True, description="prompts call symbols S1, S2, ... and count days from the start")
    aliases: dict[str, tuple[Annotated[str, Field(pattern=r"\w")], ...]] = Field(
        {}, description="other names of symbols to replace in texts"
    )
    first_date: date | None = Field(None, description="date of the first day; by default that of a live clock")
    levels: int = Field(3, ge=1, le=20, description="price levels a side in a prompt")
    bars: int = Field(5, ge=0, le=50, description="bars of `interval_s` in a prompt")
    price_band: float = Field(0.2, gt=0, lt=1, description="limit prices may differ from the reference by this share")
    market_slippage: float = Field(
        0.02, ge=0, lt=1, description="a market order trades at most so far behind the touch"
    )
    order_lots_max: int = Field(10_000, ge=1, description="largest order")
    open_orders_max: int = Field(10, ge=1, le=100)
    forum: bool = Field(True, description="minds write posts, which the others see from their next decision on")
    posts_max: int = Field(10, ge=0, le=100, description="newest posts in a prompt")
    events: Path | None = Field(None, description="JSONL file of events, relative to this file")
    news_max: int = Field(
        10, ge=0, le=100, description="newest messages of the exchange's news channel at a decision; 0: none are read"
    )
    forecasts: bool = Field(True, description="whether minds read the newest forecast of each symbol on the channel")
    loans: LoansConfig | None = Field(None, description="without it there are no loans")
    memory: MemoryConfig = MemoryConfig()
    budget: BudgetConfig = Field(BudgetConfig(), description="of all minds together")
    budget_per_mind: BudgetConfig = BudgetConfig()

    @model_validator(mode="after")
    def _is_consistent(self) -> "MindsConfig":
        if (self.model is None) == (self.endpoint is None):
            given = "neither" if self.model is None else "both"
            raise ValueError(f"expected `model` or `endpoint`, got {given}; give one of them")
        if (self.hours is None) == (self.duration_s is None):
            given = "neither" if self.hours is None else "both"
            raise ValueError(f"expected `hours` or `duration_s`, got {given}; give one of them")
        if self.hours is not None and self.span_ns[0] >= self.span_ns[1]:
            raise ValueError(f"hours: expected an end after the start, got {self.hours}; swap them")
        names = [persona.name for persona in self.personas]
        if len(set(names)) < len(names):
            raise ValueError(f"personas: expected each name once, got {', '.join(names)}; rename one")
        if sum(persona.count for persona in self.personas) > MINDS_MAX:
            raise ValueError(f"personas: expected at most {MINDS_MAX} minds in all; lower a count")
        if self.loans is None and any(persona.loan for persona in self.personas):
            raise ValueError("loan: expected `loans` beside it, got none; add them or remove the loan")
        return self

    @property
    def span_ns(self) -> tuple[int, int]:
        """`hours` as ns after midnight."""
        start, _, end = (self.hours or "").partition("-")
        return time_of_day_ns(start), time_of_day_ns(end)

    @property
    def interval_ns(self) -> int:
        """`interval_s` in ns."""
        return round(self.interval_s * SECOND_NS)


def load_minds(source: str) -> tuple[MindsConfig, Path]:
    """(settings from a YAML file or by the name of a shipped one, the folder that their paths are relative to). Raises MindsConfigError."""
    values = read_yaml(source, MINDS, MindsConfigError, "personas and a model or an endpoint")
    try:
        config = MindsConfig.model_validate(values)
    except ValidationError as error:
        raise MindsConfigError(f"{source}: {describe_invalid(error, MindsConfig, most=1)}") from None
    folder = Path(source).parent if Path(source).is_file() else Path(str(files("serl.configs").joinpath(MINDS)))
    return config, folder
