"""PyTorch's threads in a researcher's process."""

import os
import subprocess
import sys

import pytest

LOAD = "import serl.researcher, os, sys; print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"


@pytest.mark.parametrize(("given", "kept"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_that_wait_do_not_spin(given: str | None, kept: str) -> None:
    """Two tunings on two cores took 2.3 times as long. It must be set before PyTorch is loaded, and the user's own setting counts."""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    environment |= {"OMP_WAIT_POLICY": given} if given else {}
    found = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.split() == [kept, "False"]
