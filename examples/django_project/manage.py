#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line

sys.path.append(
    str(Path(__file__).parents[1])
)  # for chat_rules and sync_turn, which the examples share
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "desk.settings")
execute_from_command_line(sys.argv)
