"""Commands that one set of rules has acknowledged are not executed again by another."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from serl.exchange import core
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.errors import JournalError
from serl.exchange.journal.meta import write_meta
from serl.exchange.market import MATCHING_RULES, Market
from serl.exchange.records import CommandKind, command
from tests.exchange.generate import OPERATOR, PROFILES, SYMBOLS, Generator

DIGESTS = Path(__file__).parent / "matching_rules.yaml"


def digests(profile: str) -> list[str]:
    """[commands, events] of a short stream."""
    market, generator = Market(SYMBOLS, limits=PROFILES[profile].limits), Generator(11, PROFILES[profile])
    market.state.operator[OPERATOR] = 1
    found = hashlib.sha256(), hashlib.sha256()
    for _ in range(20):
        commands = generator.commands(50)
        events = market.submit(commands)
        generator.observe(events)
        found[0].update(commands.tobytes())
        found[1].update(events.tobytes())
    return [one.hexdigest()[:16] for one in found]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_rules_make_the_same_events(profile: str) -> None:
    """matching_rules.yaml: the digests of each profile, by the number of the rules."""
    commands, events = yaml.safe_load(DIGESTS.read_text())[MATCHING_RULES][profile]
    found = digests(profile)
    assert found == [commands, events], (
        "the first batch of commands causes other events: raise market.MATCHING_RULES, and write the new digests under its number. "
        "If only tests/exchange/generate.py changed, write them under the same number"
    )


def start(folder: Path, monkeypatch: pytest.MonkeyPatch, rules: int) -> Core:
    monkeypatch.setattr(core, "MATCHING_RULES", rules)
    overrides: dict[str, Any] = {"symbols": [{"name": "A"}], "journal": {"folder": str(folder)}}
    return Core(load_config(None, overrides), folder)


def crash_after_an_order(started: Core) -> None:
    command_id = started.command_sequence + 1
    started.submit(command(CommandKind.NEW, command_id=command_id, qty_lots=1, price_ticks=100))
    started.journal.commands.sync()
    started.journal.unlock()


def recovered(started: Core) -> int:
    """Number of commands that were executed again; the exchange ends."""
    started.close()
    return started.recovery.commands


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_other_rules_do_not_execute_commands_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start is refused before anything changes; with a snapshot at the end nothing has to be executed again."""
    crash_after_an_order(start(tmp_path, monkeypatch, 1))
    before = files(tmp_path)
    with pytest.raises(
        JournalError,
        match=r"commands 1 to 1 to have been executed by matching rules 2, got rules 1, .*a stop writes a snapshot",
    ):
        start(tmp_path, monkeypatch, 2)
    assert files(tmp_path) == before
    start(tmp_path, monkeypatch, 1).close()
    crash_after_an_order(start(tmp_path, monkeypatch, 2))
    with pytest.raises(JournalError, match=r"commands 2 to 2 .* matching rules 1, got rules 2"):
        start(tmp_path, monkeypatch, 1)
    again = start(tmp_path, monkeypatch, 2)
    assert recovered(again) == 1 and again.journal.meta["rules"] == [[1, 1], [2, 2]]


def test_without_the_check_they_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash_after_an_order(start(tmp_path, monkeypatch, 1))
    monkeypatch.setattr(core, "check_rules", lambda *_: None)
    assert recovered(start(tmp_path, monkeypatch, 2)) == 1


def test_journals_of_versions_that_did_not_name_their_rules_have_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashed = start(tmp_path, monkeypatch, 1)
    crash_after_an_order(crashed)
    del crashed.journal.meta["rules"]
    write_meta(tmp_path, crashed.journal.meta)
    with pytest.raises(JournalError, match="rules 2, got rules 1"):
        start(tmp_path, monkeypatch, 2)
    assert recovered(start(tmp_path, monkeypatch, 1)) == 1
