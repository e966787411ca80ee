"""Functions for programs that move, repair or check whole stores (async API)."""

from __future__ import annotations

from jazzmine._async.maintenance import *
from jazzmine._async.maintenance import __all__ as __all__
