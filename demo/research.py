"""Options of the demo's researcher."""

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import yaml

from serl.demo.source import Source

SETTINGS = "demo"


def require_packages() -> None:
    """Raise MissingPackageError if a package of the researcher is missing."""
    from serl.researcher.outer import config

    config.require_packages(config.load_config(Path(SETTINGS)))


def options(source: Source, output: Path) -> Iterator[str]:
    """Options of `serl researcher start`. The researcher trains in the market in which its policy trades later: history, or a population, whose
    settings are written to `output`."""
    if source.day is not None:
        yield from ("--config", SETTINGS, "--market", str(source.day))
        return
    path = output / "researcher.yaml"
    path.write_text(yaml.safe_dump(_settings(str(source.population))))
    yield from ("--config", str(path))


def _settings(population: str) -> dict[str, object]:
    from serl.researcher.inner.settings import DYNAMIC

    values = yaml.safe_load((files("serl.configs") / "researcher" / f"{SETTINGS}.yaml").read_text())
    market = DYNAMIC.model_copy(update={"population": population}).model_dump(mode="json")
    return {**values, "inner": {**values["inner"], "dynamic": market}}
