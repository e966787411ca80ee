"""Builds and installations contain the sync copy of the current sources."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ["src", "tests", "scripts"]
FILES = ["pyproject.toml", "hatch_build.py", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"]
RELEASE = (
    "jazzmine-"
    + re.findall(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
)
MARK = "MARK = 'edited'"
SYNC_COPY = "jazzmine/_sync/__init__.py"
RUBBISH = shutil.ignore_patterns("__pycache__", ".*")

pytestmark = pytest.mark.packaging


def copied(target: Path) -> Path:
    for folder in SHIPPED:
        shutil.copytree(ROOT / folder, target / folder, ignore=RUBBISH)
    for file in FILES:
        shutil.copy2(ROOT / file, target)
    return target


def build(root: Path, *arguments: str) -> Path:
    """Build `root` with the tools of this environment and return the folder of the results."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", *arguments]
    run(command, root)
    return root / "dist"


def run(command: list[str], folder: Path) -> str:
    """Run a command that also finds what this environment has installed."""
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def edit(root: Path, line: str = MARK) -> None:
    """Change a source, and leave its sync copy unchanged."""
    with (root / "src/jazzmine/_async/__init__.py").open("a") as source:
        source.write(f"\n{line}\n")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an sdist and of the wheel from it, of a source newer than its sync copy."""
    copy = copied(tmp_path_factory.mktemp("built") / "copy")
    edit(copy)
    return build(copy)


@pytest.fixture(scope="module")
def sdist(built: Path) -> dict[str, bytes]:
    """The files of the sdist, by their paths in the repository."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive.getmembers())
        return {name.partition("/")[2]: file.read() for name, file in files if file}


@pytest.fixture(scope="module")
def wheel(built: Path) -> dict[str, bytes]:
    """The files of the wheel that was built from the sdist."""
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sources(folder: str) -> set[str]:
    """The files of a folder that are packaged, without the files of tools."""
    files = (path for path in (ROOT / "src" / folder).rglob("*") if path.is_file())
    names = {path.relative_to(ROOT / "src").as_posix() for path in files}
    return {name for name in names if "/." not in name and "/__pycache__/" not in name}


def test_the_wheel_contains_the_complete_package_and_its_sync_copy(wheel: dict[str, bytes]) -> None:
    generated = {name.replace("/_async/", "/_sync/") for name in sources("jazzmine/_async")}

    assert generated
    assert sources("jazzmine") | generated <= wheel.keys()
    assert "jazzmine/py.typed" in wheel


def test_the_wheel_holds_nothing_else(wheel: dict[str, bytes]) -> None:
    assert {name.partition("/")[0] for name in wheel} == {"jazzmine", f"{RELEASE}.dist-info"}


def test_the_sdist_holds_what_a_build_and_the_tests_need(sdist: dict[str, bytes]) -> None:
    needed = {*FILES, "scripts/generate_sync.py", "tests/packaging/test_builds.py"}

    assert needed <= sdist.keys()
    assert {f"src/{name}" for name in sources("jazzmine")} <= sdist.keys()


def test_the_sync_copy_in_a_build_follows_its_source(
    sdist: dict[str, bytes], wheel: dict[str, bytes]
) -> None:
    assert MARK.encode() in sdist[f"src/{SYNC_COPY}"]
    assert MARK.encode() in wheel[SYNC_COPY]


def test_the_sync_copy_of_an_editable_install_follows_its_source(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy")
    edit(copy)
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv/bin/python")

    options = ["--quiet", "--no-deps", "--no-build-isolation", "--editable"]
    run([python, "-m", "pip", "install", *options, str(copy)], tmp_path)

    code = "import jazzmine._sync as s; print(s.MARK, s.__file__)"
    assert run([python, "-c", code], tmp_path).split() == ["edited", str(copy / "src" / SYNC_COPY)]


def test_a_source_without_a_true_sync_copy_fails_the_build(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy")
    edit(copy, "import asyncio")

    with pytest.raises(AssertionError, match='"asyncio" is left over'):
        build(copy, "--wheel")
