"""YAML that somebody else wrote."""

from typing import Any

import yaml


def parse_yaml(text: str | bytes) -> Any:
    """What a YAML document says. Raises yaml.YAMLError, also for bytes that are no text and for dates, numbers and nesting that cannot be."""
    try:
        return yaml.safe_load(text)
    except (ValueError, RecursionError) as error:
        raise yaml.YAMLError(f"{type(error).__name__}: {error}") from None
