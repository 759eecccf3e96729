"""The researcher: a language model designs learning algorithms for execution agents and learns from their scores."""

import os

if __name__ == "researcher":
    raise ImportError("import serl.researcher, not researcher: install the project first (make test does it)")

# PyTorch reads this when it is loaded. By default its threads spin while they wait for each other, which takes cores from other programs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
