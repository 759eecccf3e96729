"""The data of a run, identified by hashes."""

from pathlib import Path

from serl.agents.execution.data import file_sha256
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import fingerprint
from serl.researcher.inner.settings import Settings
from serl.researcher.outer.database import Database
from serl.researcher.outer.errors import RunError


def data_of(settings: Settings) -> str:
    """The files and populations of training and scoring, with hashes. RunError if a file cannot be read."""
    market = settings.market
    files = [*market.data, *([settings.day] if settings.day else [])]
    names = [settings.dynamic.population, *([market.population] if market.kind == "dynamic" else [])]
    populations = [f"population {one.name} sha256 {fingerprint(one)}" for one in map(load_population, names)]
    return ", ".join(dict.fromkeys([*map(_file_of, files), *populations]))


def _file_of(path: Path) -> str:
    try:
        return f"{path.name} sha256 {file_sha256(path)[:16]}"
    except OSError as error:
        raise RunError(
            f"{path}: expected a file of data, got {error.strerror}; correct inner.market.data or inner.day"
        ) from None


def require_same_data(database: Database, data: str) -> None:
    """RunError if a run began with other data."""
    # runs of earlier versions did not record all data
    if missing := [one for one in (database.fact("data") or "").split(", ") if one and one not in data.split(", ")]:
        raise RunError(
            f"{database.folder}: expected the data that the run began with, {', '.join(missing)}, got {data}; its scores cannot be compared with "
            "new ones: restore the data, or start another run with --output"
        )
