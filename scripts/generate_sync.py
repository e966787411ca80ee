"""Generate `src/jazzmine/_sync`, the sync copy of `_async`, or check that it is up to date.

With --check nothing is written: the differences are printed, and the exit status is 1. A source
of which no correct copy can be made is refused, with exit status 2.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import tokenize_rt
import unasync

ROOT = Path(__file__).resolve().parent.parent
SOURCE, COPY = "src/jazzmine/_async", "src/jazzmine/_sync"
COMMAND = "python scripts/generate_sync.py"

# The names that differ, in code, strings and comments. Besides them, `__aenter__` and the others
# that unasync replaces differ, `AsyncX` (`SyncX`) and `async_x` (`sync_x`). A name that no file
# uses is an error.
NAMES = {
    "AsyncClientSession": "ClientSession",
    "AsyncCollection": "Collection",
    "AsyncConnection": "Connection",
    "AsyncCursor": "Cursor",
    "AsyncDatabase": "Database",
    "AsyncMongoClient": "MongoClient",
    "_async": "_sync",
    "aclose": "close",
    "asynchronous": "synchronous",
    "wait_async": "wait",
}

# Words that no copy may contain: as a name they would not work, in prose they would be untrue.
ASYNC_ONLY = re.compile(
    r"\b(?:await(?:s|ed|ables?)?|asynchronous(?:ly)?|coroutines?|\w*async\w*|aio|__await__"
    r"|aclos(?:e|ing)|anext|aiter|asend|athrow|isawaitable|iscoroutine\w*)\b",
    re.IGNORECASE,
)


class RefusedError(Exception):
    """The sources cannot be converted; the message has one line for each problem."""


def convert(text: str, names: Mapping[str, str]) -> str:
    """Return the sync copy of a source."""
    rule = unasync.Rule(SOURCE, COPY, names)
    code = tokenize_rt.tokens_to_src(rule._unasync_tokens(tokenize_rt.src_to_tokens(text)))
    copy = re.sub(r"\w+", lambda word: str(rule._unasync_name(word[0])), code)
    return re.sub(r"\basync_(?=\w)", "sync_", copy)


def flaws(text: str, copy: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each problem of a copy, and what is wrong."""
    for match in ASYNC_ONLY.finditer(copy):
        line = copy.count("\n", 0, match.start()) + 1
        yield line, f'"{match[0]}" is left over: reword it, or add it to NAMES'
    if text.count("\n") != copy.count("\n"):
        yield 1, "the copy's lines differ"
    try:
        ast.parse(copy)
    except SyntaxError as error:
        yield error.lineno or 1, f"the copy cannot be parsed: {error}"


def generate(root: Path, names: Mapping[str, str]) -> dict[Path, str]:
    """Return the text of every file of the copy by its path, or raise RefusedError."""
    sources = {
        path.relative_to(root / SOURCE): path.read_text("utf-8")
        for path in sorted((root / SOURCE).rglob("*.py"))
    }
    if not sources:
        raise RefusedError(f"{SOURCE}: no Python file to generate from")
    copies, problems = {}, []
    for name, text in sources.items():
        try:
            copy = convert(text, names)
        except (SyntaxError, ValueError, tokenize.TokenError) as error:
            problems.append(f"{SOURCE}/{name.as_posix()}:1: {error}")
            continue
        copies[root / COPY / name] = copy
        found = flaws(text, copy)
        problems += [f"{SOURCE}/{name.as_posix()}:{line}: {what}" for line, what in found]
    used = set(re.findall(r"\w+", "\n".join(sources.values())))
    problems += [f'{SOURCE}: no file uses "{name}"' for name in sorted(names.keys() - used)]
    if problems:
        raise RefusedError("\n".join(problems))
    return copies


def changes(root: Path, names: Mapping[str, str]) -> dict[Path, str | None]:
    """Return the new text of each file of the copy that differs, None if it is an orphan."""
    generated = generate(root, names)
    files = (path for path in (root / COPY).rglob("*") if path.is_file())
    present = {path for path in files if path.parent.name != "__pycache__"}
    wrong: dict[Path, str | None] = dict.fromkeys(present - generated.keys())
    for path, text in generated.items():
        if path not in present or path.read_bytes() != text.encode():
            wrong[path] = text
    return dict(sorted(wrong.items()))


def show(path: Path, name: str, new: str | None) -> None:
    """Print how a file has to change."""
    old = path.read_text("utf-8", "replace") if path.exists() else None
    fate = "is orphaned" if new is None else "is missing" if old is None else "is out of date"
    before, after = (old or "").splitlines(), (new or "").splitlines()
    diff = difflib.unified_diff(before, after, "on disk", "generated", lineterm="")
    print(f"{name} {fate}", *diff, sep="\n")


def main(
    argv: Sequence[str] | None = None, *, root: Path = ROOT, names: Mapping[str, str] = NAMES
) -> int:
    """Write or check the copy; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if it would")
    check = parser.parse_args(argv).check
    try:
        wrong = changes(root, names)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 2
    for path, text in wrong.items():
        name = path.relative_to(root).as_posix()
        if check:
            show(path, name, text)
        elif text is None:
            path.unlink()
            print(f"deleted {name}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"wrote {name}")
    if check and wrong:
        print(f"\nTo correct it, run: {COMMAND}")
    return int(check and bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
