"""Regenerates the sync copy before every build, so that it is never older than its source."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GenerateSyncHook(BuildHookInterface[Any]):
    """Runs scripts/generate_sync.py for wheels, sdists and editable installs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Generate the sync copy, or fail the build."""
        script = Path(self.root, "scripts", "generate_sync.py")
        run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"{script} failed:\n{run.stdout}{run.stderr}")
