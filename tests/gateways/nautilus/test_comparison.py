"""The comparison of both backtests in docs/gateways/nautilus.md."""

import re
from typing import Any

import pytest

from tests.doc_blocks import DOCS
from tests.gateways.nautilus import needs_nautilus

pytestmark = [needs_nautilus, pytest.mark.long]


def test_the_table_of_the_page_is_what_the_benchmark_measures() -> None:
    from benchmarks.nautilus import run

    text = (DOCS / "gateways" / "nautilus.md").read_text()
    results: dict[str, dict[str, Any]] = run()
    for name, figures in results.items():
        theirs, ours = figures["nautilus"], figures["serl"]
        cells = [
            name, figures["orders"], figures["same"], theirs["orders filled"], ours["orders filled"], f"{theirs['lots']:,}",
            f"{ours['lots']:,}", f"{theirs['cost']:.2f}", f"{ours['cost']:.2f}",
        ]  # fmt: skip
        row = "| " + " | ".join(map(str, cells)) + " |"
        assert row in text, f"{row}; the page has {re.findall(rf'^.*{name} .*$', text, re.MULTILINE)}"
