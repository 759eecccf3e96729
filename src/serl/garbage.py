"""Python's garbage collector in processes that import much."""

import atexit
import gc

OBJECTS = 50_000
"""New objects after which Python looks for garbage; 700 to 2,000 by default."""


def collect_rarely() -> None:
    """Makes Python look for garbage rarely, and not at the exit of the process.

    Importing numba makes some hundred thousand objects that stay: looking through them again and again takes a third of the
    start of a command, and as long again at its exit.
    """
    gc.set_threshold(OBJECTS, 10, 10)
    atexit.register(gc.freeze)
