"""Functions for programs that move, repair or check whole stores (sync API)."""

from __future__ import annotations

from jazzmine._sync.maintenance import *
from jazzmine._sync.maintenance import __all__ as __all__
