"""How the kernel's functions are compiled.

Without numba's reference counting (nothing is allocated while matching, so there is nothing to count) and with the hot
path inlined: a call would copy the state's two dozen array headers. Together 1 M to 11 M messages a second.
"""

from typing import Any

import numpy as np
from numba import njit

compiled = njit(cache=True, _nrt=False, error_model="numpy")
inlined = njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)

int64: Any = np.int64
"""Signed 64 bits, to type checkers an int: what compiled code must say wherever a narrower field takes part in sums."""
