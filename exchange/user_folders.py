"""Folders of the user, where serl keeps what outlives a command."""

import os
from pathlib import Path

from serl.exchange.errors import ConfigError


def user_folder(variable: str, default: str) -> Path:
    """The folder that the environment variable names, otherwise this one in the user's home. ConfigError if the user has no home, as with a number in
    a container that no name belongs to."""
    try:
        return Path(os.environ.get(variable) or f"~/{default}").expanduser()
    except RuntimeError:
        raise ConfigError(
            f"expected a home folder of user {os.getuid()}, got none; set HOME or {variable} to a folder that you can write to"
        ) from None


def user_cache() -> Path:
    """The folder of serl's caches, such as fetched models; it may not exist yet. ConfigError as user_folder."""
    return user_folder("XDG_CACHE_HOME", ".cache") / "serl"
