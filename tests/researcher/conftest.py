"""What the tests of the researcher share."""

from pathlib import Path

import pytest
import yaml

from serl.researcher.sandbox import bubblewrap
from serl.researcher.sandbox.errors import SandboxUnavailableError
from serl.researcher.tasks import load_task


@pytest.fixture
def sandboxed() -> None:
    """Skips a test where there can be no sandbox."""
    try:
        bubblewrap.require_bwrap()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task in a small market."""
    values = load_task("thin").model_dump(mode="json", exclude={"name"})
    values["inner"]["market"] |= {
        "population": "small", "hours": "09:31-09:34", "simulated_days": 9, "environments": 2, "duration_s": 60,
    }  # fmt: skip
    (path := tmp_path / "mine.yaml").write_text(yaml.safe_dump(values))
    return path
