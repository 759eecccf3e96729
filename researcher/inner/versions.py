"""Versions of the files that settings name, as keys of caches in this process: a file may be overwritten under the same name."""

from pathlib import Path

from serl.researcher.inner.settings import Settings, TrainingSettings

Versions = tuple[tuple[str, int, int], ...]
"""Path, time of the last change in ns, and size in bytes of each file."""


def versions_of(settings: TrainingSettings) -> Versions:
    """The versions of all data and populations that are files."""
    named = [*settings.market.data, Path(settings.market.population), Path(settings.dynamic.population)]
    if isinstance(settings, Settings) and settings.day is not None:
        named.append(settings.day)
    stats = [(str(path), path.stat()) for path in named if path.is_file()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
