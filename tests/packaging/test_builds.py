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
RUBBISH = shutil.ignore_patterns("__pycache__", ".*")

pytestmark = pytest.mark.packaging


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of this repository, to be edited and built."""
    return copied(tmp_path / "copy")


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


def members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def edit(root: Path) -> None:
    """Change a source, and leave its sync copy unchanged."""
    with (root / "src/jazzmine/_async/__init__.py").open("a") as source:
        source.write("\nMARK = 'edited'\n")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an sdist and of the wheel that was built from that sdist."""
    return build(copied(tmp_path_factory.mktemp("built") / "copy"))


@pytest.fixture(scope="module")
def sdist(built: Path) -> set[str]:
    """The files of the sdist, by their paths in the repository."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def wheel(built: Path) -> set[str]:
    """The files of the wheel that was built from the sdist."""
    (path,) = built.glob("*.whl")
    return members(path)


def sources(folder: str) -> set[str]:
    """The files of a folder that are packaged, without the files of tools."""
    files = (path for path in (ROOT / "src" / folder).rglob("*") if path.is_file())
    names = {path.relative_to(ROOT / "src").as_posix() for path in files}
    return {name for name in names if "/." not in name and "/__pycache__/" not in name}


def test_the_wheel_contains_the_complete_package_and_its_sync_copy(wheel: set[str]) -> None:
    generated = {name.replace("/_async/", "/_sync/") for name in sources("jazzmine/_async")}

    assert generated
    assert sources("jazzmine") | generated <= wheel
    assert "jazzmine/py.typed" in wheel


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    assert {name.partition("/")[0] for name in wheel} == {"jazzmine", f"{RELEASE}.dist-info"}


def test_the_sdist_holds_what_a_build_and_the_tests_need(sdist: set[str]) -> None:
    assert {*FILES, "scripts/generate_sync.py", "tests/packaging/test_builds.py"} <= sdist
    assert {f"src/{name}" for name in sources("jazzmine")} <= sdist


def test_a_wheel_from_the_tree_is_the_wheel_from_the_sdist(copy: Path, wheel: set[str]) -> None:
    (path,) = build(copy, "--wheel").glob("*.whl")

    assert members(path) == wheel


def test_the_sync_copy_in_a_wheel_follows_its_source(copy: Path) -> None:
    edit(copy)

    (path,) = build(copy, "--wheel").glob("*.whl")

    with zipfile.ZipFile(path) as archive:
        assert b"MARK = 'edited'" in archive.read("jazzmine/_sync/__init__.py")


def test_the_sync_copy_in_an_sdist_follows_its_source(copy: Path) -> None:
    edit(copy)

    (path,) = build(copy, "--sdist").glob("*.tar.gz")

    with tarfile.open(path) as archive:
        sync_copy = archive.extractfile(f"{RELEASE}/src/jazzmine/_sync/__init__.py")
        assert sync_copy is not None
        assert b"MARK = 'edited'" in sync_copy.read()


def test_the_sync_copy_of_an_editable_install_follows_its_source(
    copy: Path, tmp_path: Path
) -> None:
    edit(copy)
    venv.create(tmp_path / "venv", symlinks=True)
    python = str(tmp_path / "venv/bin/python")

    options = ["--quiet", "--no-deps", "--no-build-isolation", "--editable"]
    run([python, "-m", "pip", "install", *options, str(copy)], tmp_path)

    code = "import jazzmine._sync as s; print(s.MARK, s.__file__)"
    assert run([python, "-c", code], tmp_path).split() == [
        "edited",
        str(copy / "src/jazzmine/_sync/__init__.py"),
    ]


def test_a_source_without_a_true_sync_copy_fails_the_build(copy: Path) -> None:
    with (copy / "src/jazzmine/_async/__init__.py").open("a") as source:
        source.write("\nimport asyncio\n")

    with pytest.raises(AssertionError, match='"asyncio" is left over in the copy'):
        build(copy, "--wheel")
