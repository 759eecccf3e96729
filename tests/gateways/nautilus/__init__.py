"""NautilusTrader: what needs the package is skipped where it is missing; `make interop` installs it and runs these tests."""

from importlib.util import find_spec

import pytest

needs_nautilus = pytest.mark.skipif(
    find_spec("nautilus_trader") is None,
    reason="nautilus_trader is not installed (extra nautilus; make interop)",
)
