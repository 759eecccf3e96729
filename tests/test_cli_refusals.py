"""What commands refuse before they begin: nothing is left behind, and the error names what to do."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.agents.learning.environments import Scenario
from serl.agents.learning.errors import PolicyFileError
from serl.agents.learning.files import read
from serl.cli import serl
from serl.clients.errors import ExchangeUnreachable
from serl.exchange.errors import ConfigError
from serl.researcher.llm.errors import ModelFileError
from serl.researcher.llm.models import find
from serl.researcher.outer.errors import RunError
from tests.server_fixture import free_endpoint


@pytest.mark.parametrize("symbols", ["", "A=", "A,,B", "=0.5"])
def test_an_exchange_without_the_symbols_that_were_asked_for(symbols: str) -> None:
    done = CliRunner().invoke(serl, ["exchange", "start", "--symbols", symbols, "--endpoint", "nowhere"])
    assert isinstance(done.exception, ConfigError)
    assert "expected NAME or NAME=TICK, like AMZN or BTC=0.5, got" in str(done.exception)


@pytest.mark.parametrize("name", ["events.csv", "events.jsonl"])
def test_a_drop_copy_without_an_exchange_leaves_no_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    command = ["drop-copy", "--connect", free_endpoint(), "--once", "-o", str(path)]
    assert isinstance(CliRunner().invoke(serl, command).exception, ExchangeUnreachable)
    assert not path.exists()
    path.touch()
    assert isinstance(CliRunner().invoke(serl, command).exception, ExchangeUnreachable)
    assert path.exists()


def test_a_fix_gateway_of_no_endpoint(tmp_path: Path) -> None:
    store = tmp_path / "store"
    command = ["fix", "start", "--connect", "garbage", "--account", "alice", "--store", str(store)]
    done = CliRunner().invoke(serl, [*command, "--listen", "nowhere:1"])
    assert isinstance(done.exception, ConfigError) and "expected an endpoint like tcp" in str(done.exception)
    assert not store.exists()


@pytest.mark.parametrize("account", ["a\nb", "", "a" * 65, "\udcff"])
def test_a_dashboard_of_an_account_that_no_participant_can_have(account: str) -> None:
    done = CliRunner().invoke(serl, ["dashboard", "--account", account, "--host", "nowhere"])
    assert done.exit_code == 2 and "expected a name of 1 to 64 printable bytes, got" in done.output


def test_a_report_of_no_run_leaves_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    done = CliRunner().invoke(serl, ["researcher", "report", str(folder)])
    assert isinstance(done.exception, RunError) and "contains no run" in str(done.exception)
    assert not folder.exists()


def test_a_folder_is_no_policy(tmp_path: Path) -> None:
    with pytest.raises(PolicyFileError, match=r"expected a policy file, got a folder; give the file in it"):
        read(tmp_path, "policy")


def test_hours_of_a_market_that_are_no_hours(tmp_path: Path) -> None:
    for hours in ("nan", "14:00"):
        done = CliRunner().invoke(
            serl, ["evaluate", "--config", "dynamic", "--hours", hours, "--output", str(tmp_path)]
        )
        assert f"hours: expected FROM-TO, like 10:00-14:00, got '{hours}'" in str(done.exception)


def test_a_configuration_of_the_researcher_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").touch()
    done = CliRunner().invoke(serl, ["researcher", "start", "--config", "mine"])
    assert "mine: expected a YAML file, whose name ends in .yaml, or one of bars, book, default," in str(done.exception)


@pytest.mark.parametrize("content", [b"", b"not a model"])
def test_a_model_file_that_is_no_gguf(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"model\.gguf: expected a GGUF file, got one that begins with b'.*'; "):
        find(str(path))


def test_an_unknown_policy_is_refused_before_the_market_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scenario, "fit_scales", lambda scenario: pytest.fail("simulates the days of the training part"))
    command = ["episodes", "export", "--config", "dynamic", "--policy", "nosuch", "-o", "x-v0"]
    done = CliRunner().invoke(serl, command)
    assert "nosuch: does not exist; give one of twap, vwap" in str(done.exception)
