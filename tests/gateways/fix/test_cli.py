"""`serl fix start`: what is refused before anything begins."""

import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.exchange.errors import ConfigError
from serl.gateways.fix.cli import fix


@pytest.mark.parametrize(
    "options, error",
    [
        ([], "expected --accounts or --account, got neither"),
        (["--account", "a", "--accounts", "accounts.yaml"], "expected --accounts or --account, got both"),
        (["--accounts", "nowhere.yaml"], "nowhere.yaml"),
        (["--account", "a", "--account", "a"], "expected a login for each"),
        (["--account", "zoë"], "printable ASCII"),
        (["--account", "a", "--listen", "9880"], "expected HOST:PORT"),
        (["--account", "a", "--listen", "127.0.0.1:99999"], "expected HOST:PORT"),
        (["--account", "a", "--comp-id", ""], "--comp-id"),
        (["--account", "a", "--curve", "nowhere"], "nowhere"),
    ],
)
def test_wrong_options(options: list[str], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(fix, ["start", *options])
    assert isinstance(result.exception, ConfigError) and error in str(result.exception), result
    assert list(tmp_path.iterdir()) == []


def test_an_address_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        result = CliRunner().invoke(
            fix, ["start", "--account", "a", "--listen", listen, "--store", str(tmp_path / "store")]
        )
    assert isinstance(result.exception, ConfigError) and "in use; choose another" in str(result.exception), result
