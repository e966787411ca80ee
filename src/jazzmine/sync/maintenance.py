"""What programs need that move, repair or look after whole stores (sync API)."""

from __future__ import annotations

from jazzmine._sync.maintenance import *
from jazzmine._sync.maintenance import __all__ as __all__
