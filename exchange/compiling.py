"""How the kernel's functions are compiled.

Without numba's reference counting (nothing is allocated while matching, so there is nothing to count) and with the hot
path inlined: a call would copy the state's two dozen array headers. Together 1 M to 11 M messages a second.
"""

from numba import njit

compiled = njit(cache=True, _nrt=False, error_model="numpy")
inlined = njit(cache=True, _nrt=False, error_model="numpy", forceinline=True)
