"""Types of an election of leaders, in ElectLeaders (KIP-460)."""

from __future__ import annotations

#: The first replica leads, if it is in the ISR.
PREFERRED = 0
#: Any live replica leads where none of the ISR lives; records may be lost.
UNCLEAN = 1
