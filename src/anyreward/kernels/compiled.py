"""How kernels are compiled: one place for the options.

All are cached on disk, and a division by zero gives inf or nan instead of an exception that every loop would have to
be ready for. A `loop` works only on the arrays it is given: compiled without Numba's memory manager, it counts no
references, which in loops of a few nanoseconds a turn is worth a third of the time. What allocates says so.
"""

from __future__ import annotations

from numba import njit

OPTIONS = {"cache": True, "error_model": "numpy"}

loop = njit(_nrt=False, **OPTIONS)
inlined = njit(_nrt=False, forceinline=True, **OPTIONS)
allocates = njit(**OPTIONS)
