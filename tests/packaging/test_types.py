"""A type checker knows the type of every public name of the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.frameworks import FRAMEWORKS, missing

pytestmark = pytest.mark.packaging

# What these modules take from a framework is unknown where that is not installed; `.ci/run` runs
# this test with all of them, too.
OF_MISSING_FRAMEWORKS = tuple(
    f"jazzmine.adapters.{module}" for module in FRAMEWORKS if missing(module)
)


def test_every_public_name_has_a_known_type(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--verifytypes",
        "jazzmine",
        "--ignoreexternal",
    ]
    # With --verifytypes, basedpyright asks the first Python on the PATH where its packages are.
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    ran = subprocess.run(
        [*command, "--outputjson"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    found = json.loads(ran.stdout)["typeCompleteness"]

    exported = [symbol for symbol in found["symbols"] if symbol["isExported"]]
    unknown = {
        f"{symbol['name']}: {[diagnostic['message'] for diagnostic in symbol['diagnostics']]}"
        for symbol in exported
        if not symbol["isTypeKnown"] and not symbol["name"].startswith(OF_MISSING_FRAMEWORKS)
    }
    assert unknown == set(), "\n".join(sorted(unknown))
    assert found["exportedSymbolCounts"]["withKnownType"] > 1000
