"""CURVE keys: four files in a folder, made once and handed to those who may connect."""

import dataclasses
from pathlib import Path

import zmq

from serl.exchange.errors import ConfigError

NAMES = ("server.key", "server.public", "client.key", "client.public")


@dataclasses.dataclass(frozen=True)
class Keys:
    """Z85 texts of 40 characters. The server needs its secret, a client needs server_public and its own pair."""

    server_secret: str
    server_public: str
    client_secret: str
    client_public: str

    def open(self, socket: "zmq.Socket[bytes]") -> None:
        """Encrypts what a client's socket says; before it connects."""
        socket.curve_serverkey = self.server_public.encode()
        socket.curve_publickey = self.client_public.encode()
        socket.curve_secretkey = self.client_secret.encode()


def new_keys(folder: Path) -> None:
    """Makes a server and a client pair; ConfigError rather than writing over keys that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    there = [name for name in NAMES if (folder / name).exists()]
    if there:
        raise ConfigError(f"{folder} holds {', '.join(there)} already; choose another folder")
    for owner in ("server", "client"):
        public, secret = zmq.curve_keypair()
        for name, text in ((f"{owner}.key", secret), (f"{owner}.public", public)):
            path = folder / name
            path.touch(mode=0o600)
            path.write_text(text.decode())


def read_keys(folder: Path) -> Keys:
    """The keys of a folder; a file that is not there (a client has no server.key) reads as empty."""
    if not (folder / "server.public").exists():
        raise ConfigError(f"{folder} holds no server.public; make keys with `serl keys new {folder}`")
    texts = [(folder / name).read_text().strip() if (folder / name).exists() else "" for name in NAMES]
    wrong = [name for name, text in zip(NAMES, texts, strict=True) if len(text) not in (0, 40)]
    if wrong:
        raise ConfigError(f"{folder / wrong[0]}: 40 characters of Z85 are due")
    return Keys(*texts)
