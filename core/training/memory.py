"""Freed memory, kept by the process for the next training step.

A step allocates and frees the same hundreds of megabytes as the step before. The C library returns
much of that memory to the system, which must clear every page before the next step can use it
(``benchmarks/README.md`` has the cost).
"""

from __future__ import annotations

import ctypes
import os

# Numbers of glibc's malloc.h.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_KEPT = 1 << 30
_GROWTH = 64 << 20
_OLDER_LIMIT = 32 << 20  # the largest threshold for mmap that older versions accept


def keep_freed_memory() -> bool:
    """Makes this process keep up to a gigabyte of freed memory, for good.

    For programs that own their process; a library must not change its caller's ``malloc``.

    Returns:
        Whether it does. Only glibc can, and settings of the user (environment variables that begin
        with ``MALLOC_``, or ``GLIBC_TUNABLES``) have priority.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    # This order: setting any other option first would fix the mmap threshold at its small size.
    return (
        any(set_option(_MMAP_THRESHOLD, size) == 1 for size in (_KEPT, _OLDER_LIMIT))
        and set_option(_TRIM_THRESHOLD, _KEPT) == 1
        and set_option(_TOP_PAD, _GROWTH) == 1
    )
