"""Settings of Python's garbage collector: rare collections while a process imports much, frequent ones once it serves."""

import atexit
import gc

OBJECTS = 50_000
"""Number of new objects after which Python collects garbage while a command starts; Python's default is 700."""
OBJECTS_SERVING = 2_000
"""The same for a process that serves for hours: with OBJECTS, garbage of an hour would accumulate and look like a leak."""


def collect_rarely() -> None:
    """Makes Python collect garbage rarely, and not when the process exits.

    Importing numba creates some hundred thousand objects that stay: scanning them repeatedly takes a third of the start of a command, and as long
    again at its exit.
    """
    gc.set_threshold(OBJECTS, 10, 10)
    atexit.register(gc.freeze)


def collect_while_serving() -> None:
    """Makes Python collect garbage often, but only among objects created from now on: the objects of the start are never scanned again."""
    gc.freeze()
    gc.set_threshold(OBJECTS_SERVING, 10, 10)
