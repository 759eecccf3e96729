"""Stops a build where the rooms' links came out as text files (a checkout without symbolic links)."""

from pathlib import Path

from setuptools import setup

for room in ("exchange", "history", "clients", "agents", "researcher", "demo", "configs"):
    if not (Path(__file__).parent / "src" / "serl" / room).is_dir():
        raise SystemExit(f"src/serl/{room} is not a link to a folder: check out with core.symlinks=true and try again")
setup()
