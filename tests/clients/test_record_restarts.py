"""A recording of all accounts, and an exchange that is restarted without its journal."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from serl.clients.blocking import connect
from serl.clients.cli_record import record
from serl.clients.errors import RequestRejected
from serl.clients.record_accounts import AccountsRecorder
from serl.history.accounts import verify_accounts
from serl.history.day import read_day
from tests.server_fixture import start_exchange


def test_the_recording_up_to_the_restart_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hours of recording were lost."""
    path, copy_batch = tmp_path / "day.parquet", AccountsRecorder.copy_batch
    with ExitStack() as stack:
        first = stack.enter_context(start_exchange(symbols="A"))
        with connect(first.endpoint, "alice") as alice:
            alice.buy("A", 5, 100)

        def restarted(recorder: AccountsRecorder) -> bool:
            if recorder.tape.rows and first.process.poll() is None:
                first.process.kill()
                first.process.wait()
                stack.enter_context(start_exchange(symbols="A", endpoint=first.endpoint))
            return copy_batch(recorder)

        monkeypatch.setattr(AccountsRecorder, "copy_batch", restarted)
        arguments = ["--connect", first.endpoint, "--accounts", "--seconds", "9", "-o", str(path)]
        result = CliRunner().invoke(record, arguments)
    assert isinstance(result.exception, RequestRejected) and "another journal" in str(result.exception)
    assert "cut short; 1 commands, 1 events" in result.output
    recorded, replayed = verify_accounts(read_day(path, accounts=True))
    assert recorded == replayed
