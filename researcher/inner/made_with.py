"""Records the settings and data of the trainings and scores in a folder, so that these are never reused for other settings or data."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from serl.agents.execution.data import file_sha256
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import fingerprint
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Budget
from serl.researcher.inner.settings import Settings

FILE = "made-with.json"


def require_same(folder: Path, settings: Settings, budget: Budget, candidate: str = "") -> None:
    """Record settings, budget and data in a folder, or compare them with those recorded there: ConfigError if they differ. A folder of an earlier
    version, which has no record, is accepted as it is.

    candidate: key of the candidate, if the folder holds the files of only one.
    """
    made, path = _described(settings, budget, candidate), folder / FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, made)
        return
    before = json.loads(path.read_text())
    if changed := [name for name, value in before.items() if name in made and made[name] != value]:
        raise ConfigError(
            f"{folder}: expected the settings and data that its trainings and scores were made with, got others of {', '.join(changed)}; "
            "use the same, or another folder"
        )


def _described(settings: Settings, budget: Budget, candidate: str) -> dict[str, Any]:
    """Settings, budget and candidate by dotted names. Files and populations are identified by their content, because folders may move."""
    market, dynamic = settings.market, settings.dynamic
    values = settings.model_dump(mode="json")
    values["market"]["data"] = [_content(path) for path in market.data]
    values["day"] = None if settings.day is None else _content(settings.day)
    values["dynamic"]["population"] = fingerprint(load_population(dynamic.population))
    if market.kind == "dynamic":
        values["market"]["population"] = fingerprint(load_population(market.population))
    found = _flat({**values, "budget": dataclasses.asdict(budget), "candidate": candidate})
    return dict(json.loads(json.dumps(found)))


def _content(path: Path) -> str:
    try:
        return file_sha256(path)[:16]
    except OSError as error:
        raise ConfigError(
            f"{path}: expected a file of data, got {error.strerror}; correct market.data or day"
        ) from None


def _flat(values: dict[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return found
