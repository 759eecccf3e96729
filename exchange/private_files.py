"""Files and folders that only their owner may read: tokens, keys, journals, and the operator's credential of a running exchange."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from serl.exchange.errors import ConfigError
from serl.exchange.log import log

OTHERS = 0o077
"""Permission bits of everybody but the owner."""


def warn_if_shared(path: Path, what: str) -> None:
    """Prints a warning if anyone but the owner may access the file or folder."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS:
        log(
            "shared_file",
            f"warning: {what} {path}: expected access for its owner alone, got mode {mode:o}; run `chmod -R go= {path}`",
            path=str(path),
        )


@contextmanager
def private_files() -> Iterator[None]:
    """Within the block, only the owner may access files that the process creates."""
    previous = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(previous)


def private_folder(path: Path, what: str) -> None:
    """Creates a folder that only its owner may enter. If the folder exists, warns if others may enter it."""
    if path.is_dir():
        warn_if_shared(path, what)
    else:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)


def read_token(path: Path) -> str:
    """The token in a file, without the line end. Raises ConfigError; warns if others may read the file."""
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a file with a token, got {error}; check the path") from None
    if not text or not text.isprintable():
        raise ConfigError(f"{path}: expected one line with a token, got {len(text.splitlines())} lines; write one")
    warn_if_shared(path, "token file")
    return text


def _runtime_folder() -> Path:
    given = os.environ.get("XDG_RUNTIME_DIR")
    return Path(given) / "serl" if given else Path(tempfile.gettempdir()) / f"serl-{os.getuid()}"


def _is_ours(folder: Path) -> bool:
    """Whether only we have access to a folder; in a shared temporary folder another user could have created it, or a link with its name."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & OTHERS


def operator_file(port: int) -> Path:
    """The file in which an exchange of this user keeps its operator credential while it runs. port: that of its orders socket."""
    return _runtime_folder() / f"operator-{port}.token"


def find_operator_token(port: int) -> str:
    """The operator credential of this user's exchange on a port of this machine; "" if there is none."""
    path = operator_file(port)
    try:
        return path.read_text() if _is_ours(path.parent) else ""
    except OSError:
        return ""


@contextmanager
def kept_operator_token(port: int, token: str) -> Iterator[None]:
    """Keeps the credential in `operator_file` within the block. With "", only removes a file that a killed exchange left there.
    Raises ConfigError if the folder is not this user's alone."""
    path = operator_file(port)
    if not token:
        with suppress(OSError):
            path.unlink()
        yield
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_ours(path.parent):
        raise ConfigError(
            f"{path.parent}: expected a folder of this user alone for the operator credential, got another; "
            "set XDG_RUNTIME_DIR to one"
        )
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token)
    try:
        yield
    finally:
        if find_operator_token(port) == token:
            path.unlink()
