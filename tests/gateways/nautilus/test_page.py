"""The Python code of docs/gateways/nautilus.md."""

from pathlib import Path

import pytest

from tests.doc_blocks import blocks
from tests.gateways.nautilus import needs_nautilus
from tests.gateways.nautilus.backtests import simulate

pytestmark = [needs_nautilus, pytest.mark.long]


def test_the_backtest_of_the_page_trades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from serl.gateways.nautilus import export_day

    monkeypatch.chdir(tmp_path)
    export_day(simulate(tmp_path, "09:45"), "catalog")
    names: dict[str, object] = {}
    exec(compile(blocks("gateways/nautilus.md", "python")[0].text, "nautilus.md", "exec"), names)
    assert len(names["fills"]) > 4  # type: ignore[arg-type]
