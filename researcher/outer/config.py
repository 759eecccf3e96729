"""Settings of the outer loop."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from serl.agents.learning.sources import BARS_SUFFIX
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Budget, Form
from serl.researcher.inner.settings import STATIC, Settings
from serl.researcher.llm.settings import BudgetConfig, Endpoint
from serl.researcher.modules.contracts import Kind
from serl.researcher.tuning.config import TuningConfig

SINGLE = (Kind.REWARD, Kind.AGENT, Kind.IMAGINE, Kind.PROFILES)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class HighLevel(_Part):
    """Prompts that learn."""

    instructions: int = Field(8, ge=2, description="of a kind of module that are kept to choose from")
    replay_share: float = Field(
        0.1, ge=0, le=1, description="of prompts that are one of the best of the past, word for word"
    )
    pairs: int = Field(
        2, ge=0, description="past instructions with their scores in a prompt: so many best, as many worst"
    )


class LowLevel(_Part):
    """Weights that learn."""

    modules_max: int = Field(8, gt=0, description="that one update learns from")
    uniform_share: float = Field(0.3, ge=0, lt=1, description="of specifications drawn uniformly, to explore")
    threads: int = Field(1, gt=0, description="of the tuner; more only help on an idle machine")
    tuning: TuningConfig = TuningConfig(microbatch=2)


class Convergence(_Part):
    """PA_ema <- decay PA_ema + (1 - decay) PA_j, PA_j of the best candidate of iteration j (SE-RL)."""

    decay: float = Field(0.9, ge=0, lt=1)
    tolerance_bps: float = Field(0.1, ge=0, description="|change of PA_ema| below this has converged")
    iterations_min: int = Field(5, ge=1, description="before which nothing has")


class OuterConfig(_Part):
    """A run of the researcher."""

    name: str = "researcher"
    proposer: Literal["dek", "eureka", "random", "default"] = "dek"
    high_level: HighLevel | None = Field(HighLevel(), description="null: fixed prompts")
    low_level: LowLevel | Literal[False] | None = Field(
        None, description="null: with the embedded model; false: never; settings: required"
    )
    scenario: Literal["single", "multi"] = Field(
        "single", description="multi: agents that share an order and communicate"
    )
    kinds: tuple[Kind, ...] = Field((), description="of modules; empty: all of the scenario")
    form: Form = "spec"
    model: str = Field("tiny", description="of the embedded endpoint: tiny, coder, a GGUF; or of `endpoint`")
    endpoint: Endpoint | None = Field(None, description="of another than the embedded one")
    server_threads: int = Field(1, gt=0, description="of the embedded endpoint; more only help on an idle machine")
    max_tokens: int | None = Field(
        None, gt=0, description="of an answer; by default 400 for specifications, 2048 for code"
    )
    iterations: int = Field(50, ge=1)
    candidates: int = Field(8, ge=1, description="of an iteration")
    population: int = Field(8, ge=1, description="best candidates that others descend from")
    rewritten: float = Field(
        0.5, gt=0, le=1, description="probability with which a module of the parent is written anew"
    )
    fresh_share: float = Field(0.25, ge=0, le=1, description="of candidates without a parent")
    repairs_max: int = Field(3, ge=0)
    empty_iterations_max: int = Field(3, ge=1, description="so many in a row without a valid candidate end the run")
    penalty_bps: float = Field(5.0, ge=0, description="what failed counts as the worst score less this")
    convergence: Convergence = Convergence()
    llm_budget: BudgetConfig = BudgetConfig()
    hours_max: float | None = Field(None, gt=0)
    budget: Budget = Field(Budget(), description="of the training of one candidate")
    inner: Settings = Settings()
    workers: int = Field(2, ge=1, description="candidates that train at a time")
    train_on: Literal["local", "ray"] = Field("local", description="processes of this machine, or a Ray cluster")
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> "OuterConfig":
        if len(set(self.kinds)) != len(self.kinds):
            raise ValueError(f"kinds: each once, got {', '.join(self.kinds)}")
        if self.scenario == "single" and Kind.COMMUNICATE in self.kinds:
            raise ValueError("kinds: communicate needs scenario: multi")
        if Kind.COMMUNICATE in self.designed and self.inner.scored_in == "bars":
            raise ValueError(
                "scenario: multi cannot be scored in bars, where each agent of a team would trade in a copy of its own: splitting the "
                "order would divide its impact; set inner.scored_in: exchange"
            )
        if self.budget.dynamic_steps and self.inner.unlike:
            raise ValueError(
                f"inner: one policy learns in both markets, so both have the same layout: {self.inner.unlike}; set both alike, or "
                "budget.dynamic_steps: 0"
            )
        if self.low_level and self.endpoint is not None:
            raise ValueError(
                "low_level: needs the weights of the model, which an endpoint elsewhere does not show; "
                "leave endpoint out (embedded model), or set low_level: false"
            )
        if self.form == "code" and self.proposer == "random":
            raise ValueError("proposer: random draws specifications; set form: spec")
        return self

    @property
    def designed(self) -> tuple[Kind, ...]:
        """The kinds of modules that are proposed."""
        return self.kinds or (SINGLE if self.scenario == "single" else (*SINGLE, Kind.COMMUNICATE))

    @property
    def uses_model(self) -> bool:
        """Whether a language model proposes."""
        return self.proposer in ("dek", "eureka")

    @property
    def tuned(self) -> LowLevel | None:
        """The low level, where it is on."""
        if self.proposer != "dek" or self.low_level is False or self.endpoint is not None:
            return None
        return self.low_level or LowLevel()

    @property
    def answer_tokens(self) -> int:
        """The most tokens of an answer."""
        return self.max_tokens or (400 if self.form == "spec" else 2048)


def load_config(path: Path, market: Sequence[Path] = ()) -> OuterConfig:
    """Settings of a YAML file, or of `configs/researcher/NAME.yaml`; `market`: a file of bars, or days with a book, to learn in, instead of
    those of the settings. The first day is the one that scores are taken on. ConfigError says what is wrong with them."""
    shipped = files("serl.configs").joinpath("researcher", f"{path}.yaml")
    try:
        text = path.read_text() if path.suffix else shipped.read_text()
        values = yaml.safe_load(text) or {}
    except OSError as error:
        raise ConfigError(f"{path}: a YAML file, or the name of a shipped configuration, is due ({error})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is no YAML ({error})") from None
    return parse_config(_with_market(values, market) if market else values, str(path))


def _with_market(values: dict[str, Any], market: Sequence[Path]) -> dict[str, Any]:
    inner = values.get("inner", {})
    learnt = inner.get("market", STATIC.model_dump(mode="json")) | {"data": [str(path) for path in market]}
    day = {} if market[0].suffix == BARS_SUFFIX else {"day": str(market[0])}
    return values | {"inner": inner | {"market": learnt} | day}


def parse_config(values: dict[str, Any], source: str, context: dict[str, Any] | None = None) -> OuterConfig:
    """Settings of plain values; ConfigError says each thing that is wrong. With the context SAVED, old names of settings are accepted."""
    try:
        return OuterConfig.model_validate(values, context=context)
    except ValidationError as error:
        places = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()[:5]]
        raise ConfigError(f"{source}: {'; '.join(places)}") from None
