"""Settings of the outer loop."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, model_validator

from serl.agents.learning.settings import SAVED
from serl.agents.learning.sources import BARS_SUFFIX
from serl.cluster import LOCAL, check_place
from serl.exchange.errors import ConfigError
from serl.exchange.invalid import StrictSettings, describe_invalid
from serl.exchange.yaml_text import parse_yaml
from serl.extras import require
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner.settings import STATIC, Settings
from serl.researcher.llm.settings import BudgetConfig, Endpoint
from serl.researcher.modules import specs
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.errors import SpecError
from serl.researcher.modules.example import example
from serl.researcher.tasks import FILLED, fill_in
from serl.researcher.tuning.config import TuningConfig

_FORMER = ("population",)
"""Settings that a saved run may hold and that have no effect now."""
SINGLE = (Kind.REWARD, Kind.AGENT, Kind.IMAGINE, Kind.PROFILES)


class HighLevel(StrictSettings):
    """The high level: prompts evolve."""

    instructions: int = Field(8, ge=2, description="size of the population of instructions, for each kind of module")
    replay_share: float = Field(
        0.1, ge=0, le=1, description="share of prompts that repeat one of the best past prompts verbatim"
    )
    pairs: int = Field(
        2, ge=0, description="past instructions with scores in a prompt: this many best and as many worst"
    )


class LowLevel(StrictSettings):
    """The low level: the model's weights are tuned."""

    modules_max: int = Field(8, gt=0, description="modules per update")
    uniform_share: float = Field(
        0.3, ge=0, lt=1, description="share of specifications drawn uniformly, for exploration"
    )
    threads: int | None = Field(
        None,
        gt=0,
        description="threads of the tuner; null: as many as there are cores, because nothing trains meanwhile",
    )
    updates_per_iteration: int = Field(
        2, gt=0, description="updates after each iteration, each on modules_max of all scored modules"
    )
    start_from: Path | None = Field(None, description="adapter of an earlier run: its tuning/adapter.safetensors")
    experience: Path | None = Field(
        None, description="scored modules of earlier runs to learn from: their tuning/experience.jsonl"
    )
    tuning: TuningConfig = TuningConfig(microbatch=2)

    @model_validator(mode="before")
    @classmethod
    def _keeps_microbatch(cls, values: Any) -> Any:
        """Single settings of `tuning` leave its microbatch at the default here, which takes less memory than that of TuningConfig."""
        tuning = values.get("tuning") if isinstance(values, dict) else None
        return values | {"tuning": {"microbatch": 2} | tuning} if isinstance(tuning, dict) else values


Operator = Literal["fresh", "rewrite", "diff", "combine", "cross", "mutate", "signal", "surrogate", "uniform"]
OPERATORS: tuple[Operator, ...] = (
    "fresh", "rewrite", "diff", "combine", "cross", "mutate", "signal", "surrogate", "uniform",
)  # fmt: skip


class Search(StrictSettings):
    """How `dek` and `search` make candidates from the archive."""

    operators: tuple[Operator, ...] = Field(
        OPERATORS,
        min_length=1,
        description="what may make a candidate; cross, mutate, signal, surrogate and uniform need no model",
    )
    kept: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="probability that a candidate without a parent leaves a kind as in the best candidate",
    )
    model_share: float = Field(
        0.5, ge=0, le=1, description="share of candidates that only language models make, so that they learn on"
    )
    drawn_first: int = Field(
        0,
        ge=0,
        description="candidates that are drawn (of signals, where there are some, else uniformly) before the operators choose among themselves",
    )
    bins: int = Field(3, ge=1, description="cells of the archive along each behaviour")
    retries_max: int = Field(
        3, ge=0, description="mutations in place of an attempt that gave no candidate, or one that is known already"
    )
    notes: int = Field(6, ge=0, description="lines of a prompt on what was learnt")
    ahead: int = Field(1, ge=0, description="iterations that a language model proposes while candidates train")


class Convergence(StrictSettings):
    """PA_ema <- decay PA_ema + (1 - decay) PA_j, with PA_j of the best candidate of iteration j (SE-RL)."""

    decay: float = Field(0.9, ge=0, lt=1)
    tolerance_bps: float = Field(0.1, ge=0, description="converged when |change of PA_ema| is below this")
    iterations_min: int = Field(5, ge=1, description="iterations before convergence is checked")


class OuterConfig(StrictSettings):
    """A run of the researcher."""

    name: str = "researcher"
    task: str | None = Field(
        None,
        description="name or YAML file of a task (researcher/tasks.py), which fills in inner, budget, incumbent and kinds if they are not given",
    )
    proposer: Literal["dek", "search", "eureka", "random", "tpe", "climb", "default"] = "dek"
    search: Search = Search()
    high_level: HighLevel | None = Field(HighLevel(), description="null: fixed prompts")
    low_level: LowLevel | Literal[False] | None = Field(
        None,
        description="null: on with the embedded model; false: off; settings: on, and an error without the embedded model",
    )
    scenario: Literal["single", "multi"] = Field(
        "single", description="multi: agents that share an order and communicate"
    )
    kinds: tuple[Kind, ...] = Field((), description="kinds of modules to design; empty: all kinds of the scenario")
    incumbent: dict[Kind, dict[str, Any]] = Field(
        {}, description="what candidates are compared with: values of specifications by kind of module; empty: the default algorithm"
    )  # fmt: skip
    form: Form = "spec"
    model: str = Field(
        "tiny",
        description="model of the embedded endpoint: tiny, coder or a GGUF file; `endpoint` has its own model setting",
    )
    endpoint: Endpoint | None = Field(None, description="an endpoint other than the embedded one")
    endpoints: tuple[Endpoint, ...] = Field((), description="more endpoints, beside `endpoint` or the embedded model")
    server_threads: int = Field(
        1, gt=0, description="threads of the embedded endpoint; more help only on an idle machine"
    )
    max_tokens: int | None = Field(
        None, gt=0, description="tokens of an answer; by default 400 for specifications, 2048 for code"
    )
    iterations: int = Field(50, ge=1)
    candidates: int = Field(8, ge=1, description="candidates per iteration")
    rewritten: float = Field(0.5, gt=0, le=1, description="probability that a module of the parent is rewritten")
    fresh_share: float = Field(0.25, ge=0, le=1, description="share of candidates without a parent")
    repairs_max: int = Field(3, ge=0)
    empty_iterations_max: int = Field(
        3, ge=1, description="the run ends after this many iterations in a row without a valid candidate"
    )
    penalty_bps: float = Field(
        5.0, ge=0, allow_inf_nan=False, description="a failed candidate counts as the worst score minus this"
    )
    convergence: Convergence = Convergence()
    llm_budget: BudgetConfig = BudgetConfig()
    hours_max: float | None = Field(None, gt=0)
    budget: Budget = Field(Budget(), description="limits on the training of one candidate")
    inner: Settings = Settings()
    workers: int = Field(2, ge=1, description="candidates that train in parallel")
    train_on: Annotated[str, AfterValidator(check_place)] = Field(
        LOCAL, description="local: processes on this machine; ray, ray:ADDRESS: a Ray cluster"
    )
    seed: int = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _fill_in_task(cls, values: Any, info: ValidationInfo) -> Any:
        if info.context == SAVED and isinstance(values, dict):
            values = {name: value for name, value in values.items() if name not in _FORMER}
            if all(name in values for name in FILLED):
                return values  # saved completely, so it does not change with the task's file
        return fill_in(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _fits(self) -> "OuterConfig":
        if len(set(self.kinds)) != len(self.kinds):
            raise ValueError(f"kinds: expected each once, got {', '.join(self.kinds)}")
        for kind, module in self.incumbent_candidate.modules.items():
            try:
                specs.parse(kind, module.text)
            except SpecError as error:
                raise ValueError(f"incumbent.{kind.value}: {error}") from None
        if self.scenario == "single" and Kind.COMMUNICATE in self.kinds:
            raise ValueError("kinds: communicate needs agents that share an order; set scenario: multi")
        if Kind.COMMUNICATE in self.module_kinds and self.inner.scored_in != "exchange":
            raise ValueError(
                "scenario: multi cannot be scored in process: each agent would trade in its own copy of the market, so splitting the "
                "order would divide its impact; set inner.scored_in: exchange"
            )
        if self.budget.dynamic_steps and self.inner.layout_mismatch:
            raise ValueError(
                f"inner: expected the same layout in both markets, got {self.inner.layout_mismatch}; one policy learns in both: set equal values, or "
                "budget.dynamic_steps: 0"
            )
        if not (self.budget.static_steps or self.budget.dynamic_steps or self.incumbent_candidate.is_rule):
            raise ValueError("budget: expected steps of training, got none; set static_steps or dynamic_steps")
        if self.low_level and self.endpoint is not None:
            raise ValueError(
                "low_level: needs the weights of the model, which an external endpoint does not provide; "
                "omit endpoint (embedded model), or set low_level: false"
            )
        beginning = {"dek": {"fresh", "uniform"}, "search": {"uniform"}}.get(self.proposer)
        if beginning and not beginning & set(self.search.operators):
            raise ValueError(
                f"search.operators: expected {' or '.join(sorted(beginning))} among them, got {', '.join(self.search.operators)}; others need parents"
            )
        if self.search.drawn_first and "uniform" not in self.search.operators:
            raise ValueError(
                f"search.drawn_first: expected uniform among search.operators, got {', '.join(self.search.operators)}; add it, or set 0"
            )
        names = [self.endpoint.model if self.endpoint else self.model, *(one.model for one in self.endpoints)]
        if len({name.partition("+")[0] for name in names}) != len(names):  # after a +, a tuned model has its hash
            raise ValueError(
                f"endpoints: expected models with different names, got {', '.join(names)}; the report tells them apart by what comes before a +"
            )
        if self.form == "code" and self.proposer in ("random", "tpe", "climb"):
            raise ValueError(f"proposer: {self.proposer} makes specifications; set form: spec")
        return self

    @model_validator(mode="after")
    def _trains_what_is_no_rule(self, info: ValidationInfo) -> "OuterConfig":
        steps = self.budget.static_steps or self.budget.dynamic_steps
        if not steps and self.module_kinds != (Kind.POLICY,) and info.context != SAVED:
            raise ValueError(
                f"budget: expected steps of training for candidates of {', '.join(self.module_kinds)}, got none; set static_steps or "
                "dynamic_steps, or kinds: [policy]"
            )
        return self

    @model_validator(mode="after")
    def _scores_days_that_are_not_trained_on(self, info: ValidationInfo) -> "OuterConfig":
        inner, first = self.inner, self.inner.first_scored_day
        if not inner.folds or info.context == SAVED:  # so that runs of earlier versions stay readable
            return self
        static, dynamic = inner.market.first_day, inner.dynamic.first_day
        trains_in_two = inner.market.kind == "dynamic" and self.budget.static_steps and self.budget.dynamic_steps
        if trains_in_two and not first and static != dynamic:
            raise ValueError(
                f"inner: expected the same first_day in both simulated markets, got {static} and {dynamic}: the folds of one are training days of "
                "the other; set equal values, or folds: 0"
            )
        if not first:
            return self
        markets = inner.market, inner.dynamic
        begin, end = (choose(one.first_day for one in markets) for choose in (min, max))
        trained_on = 2 * max(one.simulated_days for one in markets) + inner.folds  # fold_seeds gives no higher numbers
        least = end - begin + trained_on
        if first < least:
            raise ValueError(
                f"inner.first_scored_day: expected 0, or at least {least:,}, got {first:,}; training may use lower days: raise it, or omit it"
            )
        return self

    @property
    def module_kinds(self) -> tuple[Kind, ...]:
        """The kinds of modules to design."""
        return self.kinds or (SINGLE if self.scenario == "single" else (*SINGLE, Kind.COMMUNICATE))

    @property
    def incumbent_candidate(self) -> Candidate:
        """The candidate that others are compared with, and the first one of a run. A run that designs only policies starts from the example."""
        if not self.incumbent and self.module_kinds == (Kind.POLICY,):
            return Candidate({Kind.POLICY: Module("spec", example(Kind.POLICY, "spec"))})
        return Candidate.of_specifications(self.incumbent)

    @property
    def uses_llm(self) -> bool:
        """Whether a language model proposes."""
        return self.proposer in ("dek", "eureka")

    @property
    def uses_signals(self) -> bool:
        """Whether candidates are drawn from signals that predict the price."""
        searches = self.proposer in ("dek", "search") and "signal" in self.search.operators
        return searches and Kind.POLICY in self.module_kinds

    @property
    def active_low_level(self) -> LowLevel | None:
        """Settings of the low level; None if it is off."""
        if self.proposer != "dek" or self.low_level is False or self.endpoint is not None:
            return None
        return self.low_level or LowLevel()

    @property
    def lag(self) -> int:
        """Iterations whose results a proposal does not see yet, because it is made while they train."""
        return self.search.ahead if self.proposer == "dek" else 0

    def answer_tokens(self, form: Form) -> int:
        """Token limit of an answer."""
        return self.max_tokens or (400 if form == "spec" else 2048)


def load_config(path: Path, market: Sequence[Path] = ()) -> OuterConfig:
    """Load a YAML file, or `configs/researcher/NAME.yaml`. `market` replaces the training data by a file of bars, or by days with a book; the test
    hours of the first day are scored at the end. ConfigError lists what is invalid."""
    folder = files("serl.configs").joinpath("researcher")
    try:
        text = path.read_bytes() if path.suffix else folder.joinpath(f"{path}.yaml").read_bytes()
        values = parse_yaml(text) or {}
    except OSError as error:
        shipped = ", ".join(sorted(one.name.removesuffix(".yaml") for one in folder.iterdir() if one.is_file()))
        got = error.strerror if path.suffix else "neither"
        raise ConfigError(
            f"{path}: expected a YAML file, whose name ends in .yaml, or one of {shipped}, got {got}; check the name"
        ) from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: expected YAML ({error})") from None
    return parse_config(_with_market(values, market) if market else values, str(path))


def _with_market(values: Any, market: Sequence[Path]) -> Any:
    """The values with the market; unchanged if they are not settings, which parse_config reports."""
    inner = values.get("inner", {}) if isinstance(values, dict) else None
    default = {} if isinstance(values, dict) and "task" in values else STATIC.model_dump(mode="json")
    trained_in = inner.get("market", default) if isinstance(inner, dict) else None
    if not isinstance(inner, dict) or not isinstance(trained_in, dict):
        return values
    trained_in = trained_in | {"data": [str(path) for path in market]}
    day = {} if market[0].suffix == BARS_SUFFIX else {"day": str(market[0])}
    return values | {"inner": inner | {"market": trained_in} | day}


def with_experience(config: OuterConfig, adapter: Path | None, experience: Path | None) -> OuterConfig:
    """The settings with --adapter and --experience applied. ConfigError if the run does not tune weights."""
    given = {name: path for name, path in (("start_from", adapter), ("experience", experience)) if path is not None}
    if not given:
        return config
    if config.active_low_level is None:
        raise ConfigError(
            "--adapter, --experience: expected a run that tunes weights, got one with the low level off; omit them"
        )
    return config.model_copy(update={"low_level": config.active_low_level.model_copy(update=given)})


def parse_config(values: dict[str, Any], source: str, context: dict[str, Any] | None = None) -> OuterConfig:
    """Settings from plain values. With the context SAVED, old names of settings are accepted. ConfigError lists up to five invalid settings."""
    try:
        return OuterConfig.model_validate(values, context=context)
    except ValidationError as error:
        raise ConfigError(f"{source}: {describe_invalid(error, OuterConfig)}") from None


def require_packages(config: OuterConfig, *, offline: bool = False) -> None:
    """Raise MissingPackageError if a package is missing that a run with these settings imports later."""
    needed = ["torch", "safetensors", "tensorboard", "pyarrow"]
    if config.uses_llm and not offline:
        needed += ["openai"] if config.endpoint else ["openai", "xllamacpp"]
        if config.active_low_level is not None:
            needed += ["gguf", "llguidance", "peft", "transformers"]
    if config.train_on != LOCAL:
        needed.append("ray")
    require("the researcher", *needed)
