"""Commands that trade reach an exchange with CURVE keys: so they can run on another machine."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from serl.clients.core import ClientCore
from serl.clients.errors import ExchangeUnreachable
from serl.clients.session import Session
from serl.exchange.keys import new_keys
from serl.history.day import write_day
from serl.history.generate import OPEN_NS, SECOND_NS, generate_day
from tests.server_fixture import Served, start_exchange


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("curve")
    new_keys(found / "keys")
    write_day(generate_day(5, end_ns=OPEN_NS + 60 * SECOND_NS), found / "demo.day")
    return found


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    config: dict[str, object] = {"login": {"curve_keys": str(folder / "keys")}}
    with start_exchange(symbols="DEMO", clock="scaled:1000", config=config, folder=folder) as exchange:
        yield exchange


@pytest.mark.long
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("replay demo.day", "replayed "),
        ("agents start --population small --until 09:30:01", "trading has already ended"),
        ("execute twap --symbol NONE --side buy --qty 1 --window 09:30-09:31", "expected one of DEMO"),
    ],
)
def test_keys_let_a_command_in(words: str, shown: str, served: Served, folder: Path) -> None:
    assert shown in run(served, folder, words, "--curve", "keys")


def test_without_keys_a_command_says_what_to_give(served: Served, folder: Path) -> None:
    assert "give the keys if it has some (--curve)" in run(served, folder, "replay demo.day")


@pytest.mark.parametrize("words", ["replay demo.day", "exchange status"])
def test_keys_that_the_exchange_refuses(words: str, served: Served, folder: Path) -> None:
    """As those of `serl keys client` before the configuration has them: the advice was to start an exchange."""
    other = folder / "other"
    if not other.exists():
        new_keys(other)
    shown = run(served, folder, words, "--curve", "other")
    assert "check the keys: the exchange logs those that it refuses" in shown


def test_a_volume_curve_is_no_key_folder(served: Served, folder: Path) -> None:
    (folder / "curve.json").write_text("{}")
    words = "execute vwap --symbol DEMO --side buy --qty 1 --window 09:30-09:31"
    assert "give a volume curve with --volume-curve" in run(served, folder, words, "--curve", "curve.json")


def run(served: Served, folder: Path, words: str, *more: str) -> str:
    """What a command prints."""
    line = [sys.executable, "-m", "serl", *words.split(), "--connect", served.endpoint, *more]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout + done.stderr


def test_a_connection_that_the_exchange_refused_says_what_to_give() -> None:
    """ZeroMQ has ended it before the first message, if this process was slow."""
    core = ClientCore("tcp://127.0.0.1:9", Session("A"), None)
    core.orders.disconnect(core.endpoint)
    with pytest.raises(ExchangeUnreachable, match="give the keys if it has some"):
        core.send(b"")
    core.context.destroy(linger=0)
