"""Generate the blocking twin of every tree in TREES, or check that each is up to date.

With --check nothing is written: what would change is shown, and the exit status is 1. A source
that has no true twin is refused, with exit status 2.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import re
import shutil
import sys
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tokenize_rt
import unasync

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "python scripts/generate_sync.py"

# Prose is copied as it stands, so it must be true of both twins.
UNTRUE = re.compile(
    r"\b(?:await(?:s|ed|ables?)?|async|asyncio|asynchronous(?:ly)?|coroutines?)\b", re.IGNORECASE
)
LEFTOVERS = frozenset({"async", "await", "asyncio", "_async", "aio"})


@dataclass(frozen=True)
class Tree:
    """A folder written by hand, its generated twin, and the names that differ between them.

    A name is replaced where it is a whole token: an identifier, one part of a dotted path, or all
    of a plain string. `AsyncX`, `__aenter__` and what else unasync knows of need no entry. Others
    (`aclose` to `close`, `anext` to `next`, `aclosing` to `closing`) get one once a file uses them:
    an entry that no file uses is an error.
    """

    source: str
    twin: str
    replacements: dict[str, str]
    needed_if: str = ""  # a tree is skipped where this folder is absent


TREES = (
    Tree(
        source="src/jazzmine/_async",
        twin="src/jazzmine/_sync",
        replacements={
            "AbstractAsyncContextManager": "AbstractContextManager",
            "_async": "_sync",
            "aio": "blocking",
            "async_microbatch": "sync_microbatch",
            "mongo_aio": "mongo_blocking",
            "postgres_aio": "postgres_blocking",
            "redis_aio": "redis_blocking",
            "upkeep_aio": "upkeep_blocking",
        },
    ),
    Tree(
        source="tests/behaviour/_async",
        twin="tests/behaviour/_sync",
        replacements={"core": "sync", "aio": "blocking"},
        needed_if="tests/behaviour",
    ),
)


class RefusedError(Exception):
    """What is wrong with the sources, one line each."""


class Rule(unasync.Rule):  # type: ignore[misc]
    """A tree's replacements, and which of them were used."""

    def __init__(self, tree: Tree) -> None:
        super().__init__(tree.source, tree.twin, tree.replacements)
        self.used: set[str] = set()

    def _unasync_name(self, name: str) -> str:
        self.used.add(name)
        return str(super()._unasync_name(name))

    def changes(self, name: str) -> bool:
        return name in ("async", "await") or super()._unasync_name(name) != name

    def convert(self, tokens: list[tokenize_rt.Token]) -> str:
        return str(tokenize_rt.tokens_to_src(self._unasync_tokens(tokens)))


@dataclass
class Changes:
    """The difference between the twin on disk and the twin that the sources ask for."""

    write: dict[Path, str] = field(default_factory=dict)
    delete: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.write or self.delete)


def tokens_of(text: str) -> list[tokenize_rt.Token]:
    """Tokenize `text`, an f-string being one token as it is before Python 3.12."""
    tokens: list[tokenize_rt.Token] = []
    depth = 0
    for token in tokenize_rt.src_to_tokens(text):
        if depth:
            tokens[-1] = tokens[-1]._replace(src=tokens[-1].src + token.src)
        else:
            tokens.append(token)
        if token.name in ("FSTRING_START", "TSTRING_START"):
            tokens[-1] = tokens[-1]._replace(name="STRING")
            depth += 1
        elif token.name in ("FSTRING_END", "TSTRING_END"):
            depth -= 1
    if tokenize_rt.tokens_to_src(tokens) != text:
        raise tokenize.TokenError("the tokens do not add up to the text", (1, 0))
    return tokens


def untrue_prose(tokens: Iterable[tokenize_rt.Token]) -> Iterator[tuple[int, str]]:
    """Find comments and strings, docstrings among them, that would be false in the twin."""
    for token in tokens:
        if token.name in ("COMMENT", "STRING"):
            for match in UNTRUE.finditer(token.src):
                line = (token.line or 1) + token.src.count("\n", 0, match.start())
                yield line, f'"{match[0]}" in a comment or string is untrue in the twin'


def hidden_names(module: ast.Module, rule: Rule) -> Iterator[tuple[int, str]]:
    """Find names inside f-strings that ought to be replaced and will not be."""
    for node in ast.walk(module):
        if isinstance(node, ast.FormattedValue):
            for name in re.findall(r"\w+", ast.unparse(node.value)):
                if rule.changes(name):
                    yield node.lineno, f'"{name}" is not replaced in an f-string: name it outside'


def definitions(module: ast.Module) -> set[tuple[int, bool]]:
    """Return the line of every class and def, and whether it is a class."""
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (node for node in ast.walk(module) if isinstance(node, kinds))
    return {(node.lineno, isinstance(node, ast.ClassDef)) for node in found}


def flaws(source: ast.Module, text: str, twin: str) -> Iterator[tuple[int, str]]:
    """Find what is wrong with a generated twin."""
    for token in tokens_of(twin):
        if token.name == "NAME" and token.src in LEFTOVERS:
            yield token.line or 1, f'"{token.src}" is left over in the twin'
    moved = definitions(source) ^ definitions(ast.parse(twin))
    if moved or text.count("\n") != twin.count("\n"):
        yield min(moved)[0] if moved else 1, "the twin's lines differ"


def convert(path: Path, rule: Rule) -> tuple[str, list[tuple[int, str]]]:
    """Return the twin of one file and what is wrong with it, as lines and texts."""
    try:
        text = path.read_text(encoding="utf-8")
        module, tokens = ast.parse(text), tokens_of(text)
        twin = rule.convert(tokens)
        wrong = [*untrue_prose(tokens), *hidden_names(module, rule), *flaws(module, text, twin)]
        return twin, sorted(wrong)
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None) or 1
        return "", [(line, f"the file or its twin can't be parsed: {error}")]


def files_under(folder: Path, pattern: str) -> list[Path]:
    files = (path.relative_to(folder) for path in folder.rglob(pattern) if not path.is_dir())
    return sorted(path for path in files if "__pycache__" not in path.parts)


def generate(root: Path, tree: Tree) -> dict[Path, str]:
    """Return the text of every file of the twin, by its path, or raise RefusedError."""
    names = files_under(root / tree.source, "*.py")
    if not names:
        raise RefusedError(f"{tree.source}: no Python file to generate from")
    rule, twins, problems = Rule(tree), {}, []
    for name in names:
        twins[root / tree.twin / name], wrong = convert(root / tree.source / name, rule)
        problems += [f"{tree.source}/{name.as_posix()}:{line}: {what}" for line, what in wrong]
    unused = sorted(tree.replacements.keys() - rule.used)
    problems += [f'{tree.source}: no file uses the replacement of "{key}"' for key in unused]
    if problems:
        raise RefusedError("\n".join(problems))
    return twins


def compare(root: Path, trees: Sequence[Tree]) -> Changes:
    changes = Changes()
    for tree in trees:
        if tree.needed_if and not (root / tree.needed_if).is_dir():
            continue
        wanted = generate(root, tree)
        present = {root / tree.twin / name for name in files_under(root / tree.twin, "*")}
        changes.delete += sorted(present - wanted.keys())
        for path, text in wanted.items():
            if path not in present or path.read_bytes() != text.encode():
                changes.write[path] = text
    return changes


def apply(changes: Changes, root: Path) -> None:
    for path, text in changes.write.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = root / f".{path.name}.{os.getpid()}"  # another run must not take it for an orphan
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
        print(f"wrote {path.relative_to(root)}")
    for path in changes.delete:
        path.unlink(missing_ok=True)
        print(f"deleted {path.relative_to(root)}")
        for folder in path.parents:
            if any(child.name != "__pycache__" for child in folder.iterdir()):
                break
            shutil.rmtree(folder)


def show(changes: Changes, root: Path) -> None:
    """Print what `apply` would do as a diff, and the command that does it."""
    for path in sorted([*changes.write, *changes.delete]):
        name = path.relative_to(root).as_posix()
        old = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        new = changes.write.get(path)
        before, after = (old or "").splitlines(), (new or "").splitlines()
        diff = difflib.unified_diff(before, after, "on disk", "generated", lineterm="")
        fate = "is orphaned" if new is None else "is missing" if old is None else "is out of date"
        print(f"{name} {fate}", *diff, sep="\n")
    print(f"\nTo mend it, run: {COMMAND}")


def main(
    argv: Sequence[str] | None = None, *, root: Path = ROOT, trees: Sequence[Tree] = TREES
) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if need be")
    check = parser.parse_args(argv).check
    try:
        changes = compare(root, trees)
    except RefusedError as error:
        print(error, file=sys.stderr)
        return 2
    if check and changes:
        show(changes, root)
        return 1
    apply(changes, root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
