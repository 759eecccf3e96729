"""Overrides: changes to the settings of a population, as in experiments and environments."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from serl.agents.traders.builtin import POPULATIONS, did_you_mean, read_yaml
from serl.agents.traders.errors import PopulationError
from serl.agents.traders.population import GroupConfig, PopulationConfig, check_population
from serl.agents.traders.registry import load_kind

Path = tuple[str, ...]


def merge(target: dict[str, Any] | list[Any], overrides: Mapping[Any, Any], source: str, above: Path = ()) -> None:
    """Merges overrides into the settings in place.

    Keys may be dotted (`value.mean_ticks`), numbers index lists (`groups.0.latency_us`), mappings are merged deeply, and anything else
    replaces the existing value. Missing mappings are created. Raises PopulationError for an index or key that leads nowhere.
    """
    for key, value in overrides.items():
        _set(target, tuple(str(key).split(".")), value, source, above)


def _set(target: dict[str, Any] | list[Any], path: Path, value: Any, source: str, above: Path) -> None:
    part, rest, here = path[0], path[1:], (*above, path[0])
    place: Any = _index(target, part, source, above) if isinstance(target, list) else part
    current = target[place] if isinstance(target, list) else target.get(part)
    if not rest and not isinstance(value, Mapping):
        target[place] = value
        return
    if current is None:
        if rest and rest[0].isdigit():
            raise PopulationError(
                f"{source}: expected a list of {'.'.join(here)} in the population's file to index, got none; give the whole list"
            )
        current = {}
    elif not isinstance(current, (dict, list)):
        if rest:
            raise PopulationError(
                f"{source}: expected a mapping or a list at {'.'.join(here)}, got {current!r}; end the key there"
            )
        current = {}
    if rest:
        _set(current, rest, value, source, here)
    else:
        merge(current, value, source, here)
    target[place] = current


def _index(target: list[Any], part: str, source: str, above: Path) -> int:
    if not part.isdigit() or int(part) >= len(target):
        raise PopulationError(
            f"{source}: expected an index from 0 to {len(target) - 1} after {'.'.join(above)}, got {part!r}; correct it, or give the whole list"
        )
    return int(part)


def leaves(overrides: Mapping[Any, Any], above: Path = ()) -> Iterator[Path]:
    """The paths of all values of overrides."""
    for key, value in overrides.items():
        path = (*above, *str(key).split("."))
        if isinstance(value, Mapping) and value:
            yield from leaves(value, path)
        else:
            yield path


def load_changed(source: str, overrides: Mapping[Any, Any]) -> PopulationConfig:
    """The population of a YAML file, or of a shipped name, with the overrides. Raises PopulationError if there is none or the result is invalid."""
    values = read_yaml(source, POPULATIONS, PopulationError, "name and groups")
    return changed_population(values, overrides, source)


def changed_population(values: Mapping[str, Any], overrides: Mapping[Any, Any], source: str) -> PopulationConfig:
    """The population with the overrides merged into a copy of its settings. Raises PopulationError if the result is invalid."""
    changed: dict[str, Any] = copy.deepcopy(dict(values))
    merge(changed, overrides, source)
    try:
        return check_population(changed, source)
    except PopulationError as error:
        found = next(filter(None, (_unknown(changed, path) for path in leaves(overrides))), None)
        if found is None:
            raise PopulationError(f"{source}: {str(error).removeprefix(f'{source}: ')}; correct it") from None
        key, known = found
        advice = did_you_mean(key.rpartition(".")[2], known, f"choose from {', '.join(known)}")
        raise PopulationError(f"{source}: expected a setting of the population, got {key}; {advice}") from None


def _unknown(values: dict[str, Any], path: Path) -> tuple[str, Sequence[str]] | None:
    """(the path up to its first unknown key, the keys known there); None if all keys are valid."""
    known: Any = PopulationConfig(name="any", groups=[GroupConfig(trader="noise")]).model_dump()
    setting: Any = values
    for place, part in enumerate(path):
        if isinstance(known, list):
            known, setting = known[0], setting[int(part)]
            continue
        if part not in known:
            return ".".join(path[: place + 1]), list(known)
        known = _profile(setting) if part == "profile" else known[part]
        setting = setting[part]
        if not known or not _are_containers(known, setting):
            return None
    return None


def _are_containers(known: Any, setting: Any) -> bool:
    """Whether both are mappings, or both are lists."""
    return isinstance(known, (dict, list)) and type(setting) is type(known)


def _profile(group: Mapping[str, Any]) -> dict[str, Any] | None:
    """The parameters of a group's kind, by name; None if there is no such kind."""
    try:
        return dict(load_kind(group["trader"]).profile.model_fields)
    except (PopulationError, KeyError):
        return None
