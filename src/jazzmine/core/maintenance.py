"""What programs need that move, repair or look after whole stores (async API)."""

from __future__ import annotations

from jazzmine._async.maintenance import *
from jazzmine._async.maintenance import __all__ as __all__
