"""The researcher: the sandbox (benchmarks/sandbox.py), the inner loop (benchmarks/inner.py), the parts of a race (benchmarks/racing.py), and an
iteration of the outer loop (benchmarks/outer.py)."""

from benchmarks import inner, outer, racing, sandbox


def run() -> dict[str, float]:
    """The figures."""
    return sandbox.figures() | inner.figures() | racing.figures() | outer.figures()
