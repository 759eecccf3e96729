"""Options of `serl ouch start`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.gateways.ouch.cli import ouch


@pytest.mark.parametrize("seconds", ["nan", "-5", "0"])
def test_a_silence_that_ends_every_session_or_none_is_refused(tmp_path: Path, seconds: str) -> None:
    options = [
        "--account",
        "a",
        "--state",
        str(tmp_path / "state"),
        "--silence",
        seconds,
        "--connect",
        "tcp://127.0.0.1:1",
    ]
    result = CliRunner().invoke(ouch, ["start", *options])
    assert result.exit_code == 2 and "is not in the range" in result.output, result
