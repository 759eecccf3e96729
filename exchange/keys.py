"""CURVE keys: four files in a folder, created once and copied to those who may connect."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import zmq

from serl.exchange.errors import ConfigError
from serl.exchange.private_files import warn_if_shared

NAMES = ("server.key", "server.public", "client.key", "client.public")


@dataclasses.dataclass(frozen=True)
class Keys:
    """Z85 texts of 40 characters. The server needs its secret; a client needs server_public and its own pair."""

    server_secret: str
    server_public: str
    client_secret: str
    client_public: str

    def open(self, socket: "zmq.Socket[bytes]") -> None:
        """Encrypts a client's socket; call it before the socket connects."""
        socket.curve_serverkey = self.server_public.encode()
        socket.curve_publickey = self.client_public.encode()
        socket.curve_secretkey = self.client_secret.encode()


def new_keys(folder: Path) -> None:
    """Creates a server and a client key pair. Raises ConfigError rather than overwriting existing keys."""
    _prepare(folder, NAMES)
    for owner in ("server", "client"):
        _write_pair(folder, owner)


def new_client_keys(server: Path, folder: Path) -> str:
    """Creates the files for another client: its key pair and the server's public key. Returns its public key. Raises ConfigError like `new_keys`."""
    server_public = read_keys(server).server_public
    _prepare(folder, NAMES[1:])
    (folder / "server.public").write_text(server_public)
    return _write_pair(folder, "client")


def _prepare(folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    existing = [name for name in names if (folder / name).exists()]
    if existing:
        raise ConfigError(f"{folder} already contains {', '.join(existing)}; choose another folder")


def _write_pair(folder: Path, owner: str) -> str:
    public, secret = zmq.curve_keypair()
    for name, text in ((f"{owner}.key", secret), (f"{owner}.public", public)):
        path = folder / name
        path.touch(mode=0o600)
        path.write_text(text.decode())
    return public.decode()


def read_keys(folder: Path) -> Keys:
    """Reads the keys in a folder. A missing file reads as empty: a client has no server.key."""
    if not (folder / "server.public").exists():
        raise ConfigError(f"{folder} does not contain server.public; create keys with `serl keys new {folder}`")
    texts = [(folder / name).read_text().strip() if (folder / name).exists() else "" for name in NAMES]
    for name in ("server.key", "client.key"):
        if (folder / name).exists():
            warn_if_shared(folder / name, "secret key")
    wrong = [name for name, text in zip(NAMES, texts, strict=True) if len(text) not in (0, 40)]
    if wrong:
        raise ConfigError(f"{folder / wrong[0]}: expected 40 characters of Z85, got something else; copy the key again")
    return Keys(*texts)
