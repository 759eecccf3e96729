"""CURVE keys: four files in a folder, created once and copied to those who may connect."""

import dataclasses
from pathlib import Path

import zmq

from serl.exchange.errors import ConfigError

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
    folder.mkdir(parents=True, exist_ok=True)
    existing = [name for name in NAMES if (folder / name).exists()]
    if existing:
        raise ConfigError(f"{folder} already contains {', '.join(existing)}; choose another folder")
    for owner in ("server", "client"):
        public, secret = zmq.curve_keypair()
        for name, text in ((f"{owner}.key", secret), (f"{owner}.public", public)):
            path = folder / name
            path.touch(mode=0o600)
            path.write_text(text.decode())


def read_keys(folder: Path) -> Keys:
    """Reads the keys in a folder. A missing file reads as empty: a client has no server.key."""
    if not (folder / "server.public").exists():
        raise ConfigError(f"{folder} does not contain server.public; create keys with `serl keys new {folder}`")
    texts = [(folder / name).read_text().strip() if (folder / name).exists() else "" for name in NAMES]
    wrong = [name for name, text in zip(NAMES, texts, strict=True) if len(text) not in (0, 40)]
    if wrong:
        raise ConfigError(f"{folder / wrong[0]}: expected 40 characters of Z85, got something else; copy the key again")
    return Keys(*texts)
