"""The memory that one step frees, kept for the next.

A step allocates and frees the same hundreds of megabytes as the one before it. The C library gives
much of that back to the system each time, which then clears every page anew before it may be used
again (see ``benchmarks/README.md`` for what that costs).
"""

from __future__ import annotations

import ctypes
import os

# Numbers from glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 1 << 30
_GROWTH = 64 << 20
_OLDER_LIMIT = 32 << 20  # older versions take no larger threshold for blocks of their own


def keep_freed_memory() -> bool:
    """From now on this process keeps up to a gigabyte of what it frees, to use it again.

    Returns whether it does: only glibc can, and where the user has settings of their own for it
    (variables that begin with ``MALLOC_``, or ``GLIBC_TUNABLES``), those hold.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    # The first one first: whoever sets another fixes it where it is, at a small size.
    return (
        any(set_option(_MMAP_THRESHOLD, size) == 1 for size in (_KEPT, _OLDER_LIMIT))
        and set_option(_TRIM_THRESHOLD, _KEPT) == 1
        and set_option(_TOP_PAD, _GROWTH) == 1
    )
