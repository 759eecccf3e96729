"""The Python code of docs/gateways/nautilus.md."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from serl.clients.blocking import connect
from tests.doc_blocks import blocks
from tests.gateways.nautilus import needs_nautilus
from tests.gateways.nautilus.backtests import simulate
from tests.server_fixture import launch

pytestmark = [needs_nautilus, pytest.mark.long]
FILLED = "net_position="
"""What the node prints after a fill."""


def test_the_backtest_of_the_page_trades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from serl.gateways.nautilus import export_day

    monkeypatch.chdir(tmp_path)
    export_day(simulate(tmp_path, "09:45"), "catalog")
    names: dict[str, object] = {}
    exec(compile(blocks("gateways/nautilus.md", "python")[0].text, "nautilus.md", "exec"), names)
    assert len(names["fills"]) > 4  # pyrefly: ignore[bad-argument-type]


def test_the_live_node_of_the_page_trades_until_it_is_interrupted() -> None:
    """With shorter bars, so that they cross soon."""
    text = blocks("gateways/nautilus.md", "python")[1].text
    exchange = launch("--with", "liquid", "--clock", "scaled:20")
    program = text.replace("tcp://127.0.0.1:5570", exchange.endpoint).replace("1-SECOND", "200-MILLISECOND")
    node = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert node.stdout is not None
    printed = []
    for line in node.stdout:
        printed.append(line)
        if FILLED in line:
            break
    node.send_signal(signal.SIGINT)
    rest, _ = node.communicate(timeout=60)
    assert node.returncode == 0 and any(FILLED in line for line in printed), "".join(printed) + rest
    assert "Traceback" not in rest and "[ERROR]" not in "".join(printed) + rest
    with connect(exchange.endpoint, "nautilus") as same:
        assert same.account()["DEMO"].position_lots == 0
    exchange.stop()
