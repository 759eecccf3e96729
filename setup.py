"""Stops a build if the links in src/serl are text files (a checkout without symbolic links)."""

from pathlib import Path

from setuptools import setup

for package in ("exchange", "history", "clients", "gateways", "agents", "researcher", "minds", "demo", "configs"):
    if not (Path(__file__).parent / "src" / "serl" / package).is_dir():
        raise SystemExit(
            f"src/serl/{package} is not a link to a folder: check out with core.symlinks=true and try again"
        )
setup()
