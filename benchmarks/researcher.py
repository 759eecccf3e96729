"""The researcher: the sandbox (benchmarks/sandbox.py), the inner loop (benchmarks/inner.py), an iteration of the outer (benchmarks/outer.py)."""

from benchmarks import inner, outer, sandbox


def run() -> dict[str, float]:
    """The figures."""
    return sandbox.figures() | inner.figures() | outer.figures()
