"""Tasks: what an algorithm is designed for, in versioned files (`configs/researcher/tasks/`). docs/tasks.md has the ladder.

A task fixes the market, its parts, the budget of a training and the incumbent that candidates must beat. Each part of a simulated market has its
own days: no seed is in two parts.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError

from serl.exchange.errors import ConfigError
from serl.exchange.invalid import StrictSettings, describe_invalid, text_like
from serl.exchange.yaml_text import parse_yaml
from serl.researcher.candidates import Budget, Candidate
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Kind

FOLDER = "researcher", "tasks"
FILLED = "inner", "budget", "incumbent", "kinds"
"""Settings of the outer loop that a task fills in."""


class Task(StrictSettings):
    """A task as its file describes it."""

    name: Annotated[str, text_like(r"[a-z0-9-]{1,64}", "1 to 64 lower-case letters, digits or hyphens")]
    version: int = Field(ge=1, description="rises with every change that changes scores")
    about: str = Field(description="what is hard in it, in a sentence")
    expects: str = Field("", description="the user's own data that it needs; empty: none")
    ladder: bool = Field(True, description="false: its ceiling is not 5 standard errors above the default")
    kinds: tuple[Kind, ...] = Field(description="kinds of modules that can be designed for it")
    budget: Budget = Budget()
    incumbent: dict[Kind, dict[str, Any]] = Field({}, description="specification of each kind; none: the default")
    inner: dict[str, Any] = Field(description="settings of the inner loop")

    @property
    def first_candidate(self) -> Candidate:
        """The incumbent."""
        return Candidate.of_specifications(self.incumbent)

    def settings(self, data: Sequence[Path] = ()) -> Settings:
        """Settings of the inner loop. ConfigError if the data that the task expects is not given or does not exist."""
        market = dict(self.inner.get("market", {}))
        paths = list(data) or [Path(path) for path in market.get("data", [])]
        if data and not self.expects:
            raise ConfigError(
                f"task {self.name}: expected no data, because its days are simulated, got {data[0]}; leave it out"
            )
        missing = [str(path) for path in paths if not path.exists()]
        if (self.expects and not paths) or missing:
            got = f"no file {', '.join(missing)}" if missing else "no data"
            raise ConfigError(
                f"task {self.name}: expected {self.expects or 'its data'}, got {got}; give your own files"
            )
        try:
            return Settings.model_validate(self.inner | {"market": market | {"data": paths}})
        except ValidationError as error:
            raise ConfigError(f"task {self.name}: {describe_invalid(error, Settings)}") from None


def task_names() -> list[str]:
    """Names of the tasks that come with serl."""
    folder = files("serl.configs").joinpath(*FOLDER)
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def load_task(source: str) -> Task:
    """A task by its name, or from a YAML file. ConfigError if there is none or it is invalid."""
    path = Path(source)
    shipped = files("serl.configs").joinpath(*FOLDER, f"{source}.yaml")
    if not path.is_file() and not shipped.is_file():
        raise ConfigError(
            f"task: expected a YAML file or one of {', '.join(task_names())}, got {source}; check the name"
        )
    try:
        values = parse_yaml(path.read_bytes() if path.is_file() else shipped.read_bytes()) or {}
        return Task.model_validate({"name": path.stem, **values})
    except (OSError, yaml.YAMLError, TypeError) as error:
        raise ConfigError(f"task {source}: expected YAML ({error})") from None
    except ValidationError as error:
        raise ConfigError(f"task {source}: {describe_invalid(error, Task)}") from None


def fill_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Plain settings of the outer loop, completed by those of the task in `task`. Given settings take precedence, also single ones of `inner` and
    `budget`."""
    name = values.get("task")
    if not name:
        return dict(values)
    task = load_task(str(name))
    given = task.model_dump(mode="json", include=set(FILLED))
    filled = {key: _merged(given[key], values[key]) if key in values else given[key] for key in FILLED}
    market = filled["inner"].get("market") if isinstance(filled["inner"], Mapping) else None
    data = market.get("data", []) if isinstance(market, Mapping) else None
    if isinstance(data, list) and all(isinstance(path, str | Path) for path in data):  # else these settings are invalid
        task.settings([Path(path) for path in data])  # or an error that names the data
    return {**values, **filled}


def _merged(default: Any, given: Any) -> Any:
    """`given`, completed by the settings of `default` that it lacks, at any depth."""
    if not isinstance(default, dict) or not isinstance(given, Mapping):
        return given
    return {**default, **{key: _merged(default.get(key), value) for key, value in given.items()}}
