"""What the tests of the researcher share."""

import pytest

from serl.researcher.sandbox import bubblewrap
from serl.researcher.sandbox.errors import SandboxUnavailableError


@pytest.fixture
def sandboxed() -> None:
    """Skips a test where there can be no sandbox."""
    try:
        bubblewrap.require_bwrap()
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
