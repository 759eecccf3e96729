"""Fixtures: a fresh market of each implementation, for the tables, and an exchange on a small disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exchange.full_disk import NEW_MOUNTS, NEW_USER, SMALL_DISK
from tests.exchange.tables import IMPLEMENTATIONS, LIMITS, OPERATOR, AnyMarket
from tests.server_fixture import Served, launch


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda implementation: implementation.__name__)
def market(request: pytest.FixtureRequest) -> AnyMarket:
    """A market with two symbols and an operator."""
    market: AnyMarket = request.param(["AAA", "BBB"], limits=LIMITS)
    market.grant_operator(OPERATOR)
    return market


@pytest.fixture(params=["batch", pytest.param("interval", marks=pytest.mark.long)])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    """An exchange whose journal is on a disk of 12 MiB, and the folder as the test sees it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    config = tmp_path / "exchange.yaml"
    config.write_text("journal: {segment_rows: 8192, flush_s: 0.05}\nintervals: {heartbeat_s: 0.2}\n")
    prelude = SMALL_DISK.format(folder=str(folder), flags=NEW_USER | NEW_MOUNTS, mib=12)
    options = ("--symbols", "A", "--journal", str(folder / "journal"), "--config", str(config))
    served = launch(*options, "--durability", request.param, prelude=prelude)
    yield served, Path(f"/proc/{served.process.pid}/root{folder}")
    if served.process.poll() is None:
        served.stop()
    assert served.process.stdout is not None
    served.process.stdout.close()
