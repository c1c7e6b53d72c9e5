"""Free memory of a virtual machine that its host has taken back.

A guest may report its free pages, and the host keeps them (free page reporting). The first write to such a page then costs
some 2.5 us, in the kernel of the guest: 1 s for a load that appends 400 MB, as much as a broker's own work for it. Which of
two brokers gets such pages is chance. Pages that were free for less than two seconds are not reported yet.
"""

from __future__ import annotations

import mmap

#: More than a load appends.
_BYTES = 1 << 30
#: MADV_POPULATE_WRITE of Linux 5.14, for which Python 3.11 has no name.
_POPULATE_WRITE = 23


def get_back() -> None:
    """Has the host give memory for what the next load appends."""
    with mmap.mmap(-1, _BYTES) as pages:
        try:
            pages.madvise(_POPULATE_WRITE)
        except (OSError, ValueError):  # another system
            for start in range(0, _BYTES, mmap.PAGESIZE):
                pages[start] = 0
