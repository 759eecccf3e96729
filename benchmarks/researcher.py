"""The researcher: the sandbox (benchmarks/sandbox.py), and the inner loop (benchmarks/inner.py)."""

from benchmarks import inner, sandbox


def run() -> dict[str, float]:
    """The figures."""
    return sandbox.figures() | inner.figures()
