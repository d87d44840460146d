"""What the C library does with memory that was freed: glibc's malloc in ranks on a CPU.

By default large blocks come from the system anew each time, or not, depending on what was freed before: the same step took a
quarter longer in a process with another past, waiting for pages. So ranks that are timed keep what they free, as training jobs
do with an allocator made for that, and ranks whose memory is measured keep nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

_LIBC = ctypes.CDLL("libc.so.6")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_MMAP_MAX = -1, -3, -4
"""Parameters of mallopt(3), by glibc's numbers."""
_NEVER = -1
_MMAPS = 2**16
"""The most blocks that come from the system by themselves: glibc's default."""
_KEPT_BYTES = 64 * 2**10
"""Blocks above this size come from the system by themselves, where the heap has no hole for them, and it keeps less than this unused."""
_BETWEEN_S = 0.002
"""What was freed is in use for so long."""


def keep_freed_memory() -> None:
    """From now on: no block comes from the system by itself, and the heap never shrinks."""
    _LIBC.mallopt(_M_MMAP_MAX, 0)
    _LIBC.mallopt(_M_TRIM_THRESHOLD, _NEVER)


def return_freed_memory() -> None:
    """From now on larger blocks go back to the system the moment they are freed; what the heap holds unused goes now."""
    _LIBC.mallopt(_M_MMAP_MAX, _MMAPS)
    _LIBC.mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
    _LIBC.mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    _LIBC.malloc_trim(0)


@contextmanager
def returning_freed_memory() -> Iterator[None]:
    """Meanwhile a thread returns again and again what was freed: holes in the heap, too, that blocks of any size were in."""
    return_freed_memory()
    done = Event()

    def keep_returning() -> None:
        while not done.wait(_BETWEEN_S):
            _LIBC.malloc_trim(0)

    thread = Thread(target=keep_returning)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
