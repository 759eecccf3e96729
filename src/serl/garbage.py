"""Python's garbage collector: rare while a process imports much, as usual once it serves."""

import atexit
import gc

OBJECTS = 50_000
"""New objects after which Python looks for garbage while a command starts; 700 by default."""
OBJECTS_SERVING = 2_000
"""The same for a process that serves for hours: with OBJECTS an hour of garbage would pile up, and look like a leak."""


def collect_rarely() -> None:
    """Makes Python look for garbage rarely, and not at the exit of the process.

    Importing numba makes some hundred thousand objects that stay: looking through them again and again takes a third of the
    start of a command, and as long again at its exit.
    """
    gc.set_threshold(OBJECTS, 10, 10)
    atexit.register(gc.freeze)


def collect_while_serving() -> None:
    """Makes Python look for garbage often, among what is made from now on: the objects of the start are never looked through again."""
    gc.freeze()
    gc.set_threshold(OBJECTS_SERVING, 10, 10)
