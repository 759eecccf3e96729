"""The documentation of a checkout as a website, kept in the user's cache and rebuilt when its sources have changed."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from serl.exchange.errors import SerlError
from serl.exchange.user_folders import user_cache

CHECKOUT = Path(__file__).parents[2]
PACKAGES = ("exchange", "history", "clients", "gateways", "agents", "researcher", "src/serl")
"""Folders whose docstrings the API reference shows."""
BUILDERS = ("mkdocs", "mkdocs-material", "mkdocstrings-python")


class NoDocumentation(SerlError, RuntimeError):
    """The documentation does not exist here, or it cannot be built."""


def require_checkout(root: Path = CHECKOUT) -> None:
    """Raise NoDocumentation unless serl runs from a checkout: an installed package has no pages."""
    if not (root / "mkdocs.yml").is_file() or not (root / "docs" / "index.md").is_file():
        raise NoDocumentation(
            "expected the folder docs/ of a checkout, got an installed package, which has none; "
            "run `serl docs` in a checkout of serl's repository (pip install -e '.[docs]' there), or read its docs/index.md"
        )


def built_site(root: Path = CHECKOUT) -> Path:
    """The folder of the site. Unless the cache has a site of the same content, it is built, which takes half a minute. NoDocumentation if that
    fails."""
    cache = user_cache() / "docs"
    place = cache / hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    site = place / fingerprint(root)
    if not site.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            _build(root, Path(folder) / "site")
            for former in place.iterdir():
                shutil.rmtree(former, ignore_errors=True)
            (Path(folder) / "site").replace(site)
    return site


def fingerprint(root: Path) -> str:
    """SHA-256 prefix of everything that the site depends on: pages, docstrings, settings, versions of the packages that build it."""
    files = [root / "mkdocs.yml", *(path for path in (root / "docs").rglob("*") if "__pycache__" not in path.parts)]
    files += [path for package in PACKAGES for path in (root / package).rglob("*.py")]
    digest = hashlib.sha256()
    for path in sorted(path for path in files if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)}\0{len(content)}\0".encode() + content)
    for name in BUILDERS:
        digest.update(f"{name} {metadata.version(name)}\0".encode())
    return digest.hexdigest()[:16]


def _build(root: Path, site: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment)
    if done.returncode:
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise NoDocumentation(f"expected mkdocs to build {root / 'docs'}, got: {last}; see `make docs`")
