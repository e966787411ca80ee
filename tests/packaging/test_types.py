"""A type checker knows the type of every public name of the package as it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.adapters.frameworks import FRAMEWORKS, missing

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.packaging

# What these modules take from a framework is unknown where that is not installed; `.ci/run` runs
# this test with all of them, too.
OF_MISSING_FRAMEWORKS = tuple(
    f"jazzmine.adapters.{module}" for module in FRAMEWORKS if missing(module)
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """An environment with a built wheel, beside the packages of this one."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return tmp_path / "venv"


def test_every_public_name_has_a_known_type(installed: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--verifytypes",
        "jazzmine",
        "--ignoreexternal",
    ]
    # With --verifytypes, basedpyright asks the first Python on the PATH where its packages are.
    environment = {**os.environ, "PATH": f"{installed / 'bin'}:{os.environ['PATH']}"}

    ran = subprocess.run(
        [*command, "--outputjson"], cwd=installed, env=environment, capture_output=True, text=True
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
