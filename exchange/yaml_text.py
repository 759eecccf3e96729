"""Reads untrusted YAML."""

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from serl.exchange.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """Refuses a name that a map contains twice: the first of two sections would be ignored."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        names = Counter(name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode))
        if twice := next((name for name, count in names.items() if count > 1), None):
            raise yaml.YAMLError(f"{twice!r} twice in one map,{node.start_mark}; join them")
        return node


def parse_yaml(text: str | bytes) -> Any:
    """Parses a YAML document. Raises yaml.YAMLError, also for bytes that are not text, for invalid dates, numbers and nesting, and for
    a name twice in one map."""
    try:
        return yaml.load(text, _Loader)
    except (ValueError, RecursionError) as error:
        raise yaml.YAMLError(f"{type(error).__name__}: {error}") from None


def parse_shipped(text: str | bytes) -> Any:
    """Parses a YAML document that comes with serl, without checks: eight times as fast where PyYAML has its C library, as its wheels do."""
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def read_settings(path: Path, example: str) -> dict[str, Any]:
    """Reads the settings in a file; an empty file has none. example: the name of a file that shows the form. Raises ConfigError if the file is not a map."""
    try:
        values = parse_yaml(path.read_bytes()) or {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); check the path") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: expected YAML, got something else ({error})") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a map of settings like {example}, got {type(values).__name__}")
    return values
