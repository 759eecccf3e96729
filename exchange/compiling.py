"""How the kernel's functions are compiled.

Without numba's reference counting (nothing is allocated while matching, so there is nothing to count) and with the hot
path inlined: a call would copy the state's two dozen array headers. Together 1 M to 11 M messages a second.

What is inlined lives on in the cached code of others, and numba's cache looks only at the file of a function itself. So
what is cached here carries a checksum of all that it may be made of: after an update it is compiled anew.
"""

import os
import re
import zlib
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numba.core import caching

import serl

CONSTANTS = ("records.py", "state.py", "names.py")
"""Files without compiled functions whose constants are part of them."""

COMPILED = re.compile(rb"^(?:from|import) (?:numba|serl\.exchange\.compiling)\b", re.MULTILINE)
"""What a file with compiled functions has."""

outside: set[str] = set()
"""Paths of files that are not serl's and whose compiled functions have serl's inlined into them: cached as serl's own."""


@cache
def _sources() -> int:
    """A checksum over serl's source files that have to do with compiled code."""
    checksum = 0
    for folder, folders, names in os.walk(os.path.dirname(serl.__file__), followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    text = file.read()
                if name in CONSTANTS or COMPILED.search(text):
                    checksum = zlib.crc32(text, checksum)
    return checksum


def _of_serl(locator: type[Any]) -> type[Any]:
    """A numba cache locator for serl's own files and those `outside`: where `locator` keeps the cache, valid while no source changed."""

    class SerlLocator(locator):  # type: ignore[misc]
        def get_source_stamp(self) -> Any:
            return super().get_source_stamp(), _sources()

        @classmethod
        def from_function(cls, py_func: Any, py_file: str) -> Any:
            path = os.path.abspath(py_file)
            ours = path in outside or path.startswith(os.path.dirname(serl.__file__) + os.sep)
            return super().from_function(py_func, py_file) if ours else None

    return SerlLocator


_known = caching.CompileResultCacheImpl._locator_classes
_known[:0] = [_of_serl(locator) for locator in _known]

compiled = njit(cache=True, _nrt=False, error_model="numpy")
inlined = njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)

_without_wrappers = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = njit(_nrt=False, error_model="numpy", **_without_wrappers)
inner_inlined = njit(_nrt=False, error_model="numpy", forceinline=True, **_without_wrappers)
"""For functions that only compiled code calls, which is cached with them: taking a State over from Python is most of what they would be."""

int64: Any = np.int64
"""Signed 64 bits, to type checkers an int: what compiled code must say wherever a narrower field takes part in sums."""
