"""Checks of this machine, and advice on what to fix. Each check imports what it needs, so that a missing package is a finding."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from serl.clients.dashboard import PORT
from serl.exchange.errors import ConfigError, SerlError
from serl.exchange.ports import PORTS, free_port, listening_process, port_is_free
from serl.extras import install_command, requirements, user_extras

if TYPE_CHECKING:
    from packaging.requirements import Requirement

PYTHON_MIN = (3, 11)
DISK_MIN_BYTES = 100 << 20
"""Less free space than this is too little for a journal of an hour."""
DISK_ADVISED_BYTES = 3 << 30
"""Free space that is enough for models, PyTorch and runs."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROBE_S = 10.0

State = Literal["ok", "optional", "broken"]


@dataclass(frozen=True)
class Finding:
    """The result of a check. `broken`: commands that need no extras do not work; `optional`: other commands do not work, or the first start is
    slow."""

    name: str
    state: State
    found: str
    advice: str = ""


def python() -> Iterator[Finding]:
    """The interpreter's version."""
    found = f"{platform.python_version()} ({sys.executable})"
    if sys.version_info >= PYTHON_MIN:
        yield Finding("python", "ok", found)
    else:
        yield Finding("python", "broken", found, "install Python 3.11 or newer and make a virtual environment with it")


def packages() -> Iterator[Finding]:
    """The packages that serl requires, then those of its extras."""
    if not (own := requirements()):
        yield Finding("packages", "broken", "serl is imported but not installed", _install())
        return
    missing = [text for requirement in own if (text := _unmet(requirement))]
    if missing:
        yield Finding("packages", "broken", f"missing: {', '.join(missing)}", _install())
    else:
        yield Finding("packages", "ok", "all required packages")
    for extra in user_extras():
        unmet = [text for requirement in requirements(extra) if (text := _unmet(requirement))]
        if unmet:
            yield Finding(f"extra {extra}", "optional", f"missing: {', '.join(unmet)}", _install(extra))
        else:
            yield Finding(f"extra {extra}", "ok", "installed")


def _install(*extras: str) -> str:
    return f"in serl's clone: {install_command(*extras)}"


def _unmet(requirement: "Requirement") -> str:
    """The package or version that a requirement lacks; empty if it is met."""
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return requirement.name
    fits = requirement.specifier.contains(version, prereleases=True)
    return "" if fits else f"{requirement.name}{requirement.specifier} (is {version})"


def compiled_code() -> Iterator[Finding]:
    """Whether numba's cache can be written and contains the order book; whether pyzmq has its bundled library."""
    try:
        from serl.exchange import code_cache, libzmq
    except RuntimeError as error:  # numba raises it if it finds no folder
        yield Finding("numba cache", "broken", str(error), "set NUMBA_CACHE_DIR to a writable folder")
        return
    folder = code_cache.FOLDER
    if code_cache.is_kept("book"):
        yield Finding("numba cache", "ok", f"the order book is compiled ({folder})")
    elif code_cache.is_writable():
        advice = "nothing; the first start compiles for 10 to 30 s"
        yield Finding("numba cache", "optional", f"nothing compiled yet ({folder})", advice)
    else:
        found = f"{folder} cannot be written, so each start compiles"
        yield Finding("numba cache", "broken", found, "set NUMBA_CACHE_DIR to a folder that you can write to")
    if libzmq.AVAILABLE:
        yield Finding("libzmq", "ok", "bundled with pyzmq")
    else:
        advice = "pip install --force-reinstall --only-binary :all: pyzmq"
        yield Finding("libzmq", "broken", "pyzmq was built without its own library", advice)


def sandbox() -> Iterator[Finding]:
    """Whether the sandbox for code of language models works."""
    from serl.researcher.sandbox.bubblewrap import require_bwrap
    from serl.researcher.sandbox.errors import SandboxUnavailableError

    try:
        yield Finding("sandbox", "ok", require_bwrap())
    except SandboxUnavailableError as error:
        advice = "only `--form code` of the researcher needs it; see docs/sandbox.md"
        yield Finding("sandbox", "optional", str(error), advice)


def models() -> Iterator[Finding]:
    """Presence and size of the embedded language models; `serl llm verify` checks their hashes."""
    from serl.researcher.llm.models import MODELS, models_folder

    try:
        models_folder()
    except ConfigError as error:
        yield Finding("models", "optional", str(error), "only the embedded models need it")
        return
    for model in MODELS.values():
        name = f"model {model.name}"
        if not model.path.is_file():
            advice = f"serl llm fetch {model.name} ({model.n_bytes / 1e6:.0f} MB)"
            yield Finding(name, "optional", f"not in {model.path.parent}", advice)
        elif (size := model.path.stat().st_size) != model.n_bytes:
            found = f"{model.path} has {size:,} bytes, expected {model.n_bytes:,}"
            yield Finding(name, "optional", found, f"delete it, then serl llm fetch {model.name}")
        else:
            yield Finding(name, "ok", str(model.path))


def chromium() -> str | None:
    """The path of the Chromium that browser tests use, or None."""
    return next((found for name in CHROMIUM if (found := shutil.which(name))), None)


def browser() -> Iterator[Finding]:
    """The Chromium for browser tests; reports open in any browser."""
    if path := chromium():
        yield Finding("chromium", "ok", path)
    else:
        yield Finding("chromium", "optional", "not found", "apt install chromium; only tests in a browser need it")


def gpu() -> Iterator[Finding]:
    """The GPUs; none is required."""
    command = shutil.which("nvidia-smi")
    if command is None:
        yield Finding("gpu", "ok", "none found, none needed")
        return
    try:
        listed = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=PROBE_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        yield Finding("gpu", "optional", f"{command} fails: {error}", "nothing needs a GPU; look at its driver")
        return
    yield Finding("gpu", "ok", "; ".join(line.split(" (UUID")[0] for line in listed.splitlines()) or "none")


def ports() -> Iterator[Finding]:
    """The four default ports of an exchange."""
    from serl.exchange.config import load_config

    first = int(load_config().endpoint.rpartition(":")[2])
    last = first + PORTS - 1
    yield _ports(f"ports {first}-{last}", range(first, last + 1), "an exchange", "--endpoint tcp://127.0.0.1:")


def page_port() -> Iterator[Finding]:
    """The default port of a dashboard."""
    yield _ports(f"port {PORT}", range(PORT, PORT + 1), "a dashboard", "--port ")


def _ports(name: str, numbers: range, user: str, option: str) -> Finding:
    taken = [port for port in numbers if not port_is_free(port)]
    if not taken:
        return Finding(name, "ok", "free")
    by = ", ".join(f"{port} by {listening_process(port) or 'a process of another user'}" for port in taken)
    return Finding(name, "optional", f"taken: {by}", f"nothing, if this is {user} of yours; start another with {option}{free_port()}")  # fmt: skip


def disk() -> Iterator[Finding]:
    """Free space in the current and the temporary folder, and whether they are writable."""
    for name, folder in (("disk here", Path.cwd()), ("disk temporary", Path(tempfile.gettempdir()))):
        free = shutil.disk_usage(folder).free
        found = f"{free / (1 << 30):.1f} GiB free in {folder}"
        if not os.access(folder, os.W_OK):
            state: State = "optional" if folder == Path.cwd() else "broken"
            yield Finding(name, state, f"{folder} is not writable", "work in a folder of your own, or set TMPDIR")
        elif free < DISK_MIN_BYTES:
            yield Finding(name, "broken", found, "free some disk space")
        elif free < DISK_ADVISED_BYTES:
            yield Finding(name, "optional", found, "models, PyTorch and runs need 3 GiB")
        else:
            yield Finding(name, "ok", found)


def terminal() -> Iterator[Finding]:
    """The terminal's width; output is plain lines without a terminal."""
    size = shutil.get_terminal_size()
    kind = f"{size.columns} columns" if sys.stdout.isatty() else "none: plain lines"
    yield Finding("terminal", "ok", kind)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    python, packages, compiled_code, sandbox, models, browser, gpu, ports, page_port, disk, terminal,
)  # fmt: skip


def run_checks() -> list[Finding]:
    """Runs all checks within seconds, without changing anything. A check that fails becomes a finding."""
    found = []
    for check in CHECKS:
        try:
            found += list(check())
        except ImportError as error:
            found.append(Finding(check.__name__, "broken", str(error), _install()))
        except (SerlError, OSError) as error:
            found.append(Finding(check.__name__, "broken", f"{type(error).__name__}: {error}", "report this"))
    return found
