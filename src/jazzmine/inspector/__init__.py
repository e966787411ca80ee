"""The inspector: read-only web pages of what an agent has stored (`jazzmine inspect`).

`static/htmx.min.js` is that of htmx.org 2.0.11 on npm, under the Zero-Clause BSD licence
(`static/htmx.LICENSE`).
"""

from __future__ import annotations
