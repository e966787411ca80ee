"""`python -m jazzmine` is the program `jazzmine`."""

from __future__ import annotations

from jazzmine.cli import main

main()
