"""Generate the sync copy of every tree in TREES, or check that each copy is up to date.

With --check nothing is written: the differences are printed, and the exit status is 1. A source
of which no correct copy can be made is refused, with exit status 2.
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

# Words that no copy may contain: as a name they would not work, in prose they would be untrue.
ASYNC_ONLY = re.compile(
    r"\b(?:await(?:s|ed|ables?)?|asynchronous(?:ly)?|coroutines?|\w*async\w*|aio|__await__"
    r"|aclos(?:e|ing)|anext|aiter|asend|athrow|isawaitable|iscoroutine\w*)\b",
    re.IGNORECASE,
)
CURE = 'reword it, give it a replacement in TREES (as "aclose": "close"), or keep it in _compat'
CLASS = re.compile(r"(?m)^[ \t]*class[ \t]+(\w+)")
STRING = re.compile(r"(?s)(\w*)(\"{3}|'{3}|\"|')(.*)\2")
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
IDENTIFIER = re.compile(r"(?<!\w)[^\W\d]\w*")


@dataclass(frozen=True)
class Tree:
    """A folder written by hand, the folder of its generated copy, and the names that differ.

    A name is replaced where it is an identifier, a part of a dotted path, or a whole string; in
    strings and comments also where it cannot be an English word. An `AsyncX` that a file of the
    tree defines, `__aenter__` and the other names that unasync replaces need no entry. Any other
    name needs one as soon as a file uses it: an entry that no file uses is an error.
    """

    source: str
    copy: str
    replacements: dict[str, str]
    needed_if: str = ""  # a tree is skipped where this folder is absent


TREES = (
    Tree(
        source="src/jazzmine/_async",
        copy="src/jazzmine/_sync",
        replacements={
            "AbstractAsyncContextManager": "AbstractContextManager",
            "AsyncClientSession": "ClientSession",
            "AsyncCollection": "Collection",
            "AsyncConnection": "Connection",
            "AsyncDatabase": "Database",
            "AsyncMongoClient": "MongoClient",
            "AsyncRawCursor": "RawCursor",
            "_async": "_sync",
            "aclose": "close",
            "asynchronous": "synchronous",
            "async_concurrency": "sync_concurrency",
            "async_postgres": "sync_postgres",
            "async_redis": "sync_redis",
            "wait_async": "wait",
            "wait_conn_async": "wait_conn",
        },
    ),
    Tree(
        source="tests/behaviour/_async",
        copy="tests/behaviour/_sync",
        replacements={"_async": "_sync", "core": "sync", "async_support": "sync_support"},
        needed_if="tests/behaviour",
    ),
)


class RefusedError(Exception):
    """The sources cannot be converted; the message has one line for each problem."""


class Rule(unasync.Rule):  # type: ignore[misc]
    """A tree's replacements, which of them were used, and the classes that its files define."""

    def __init__(self, tree: Tree, defined: Iterable[str]) -> None:
        super().__init__(tree.source, tree.copy, tree.replacements)
        self.used: set[str] = set()
        self.defined = frozenset(defined)

    def _unasync_name(self, name: str) -> str:
        self.used.add(name)
        # unasync turns every `AsyncX` into `SyncX`, whether or not that class exists.
        if name in self.token_replacements or name in self.defined:
            return str(super()._unasync_name(name))
        return name

    def convert(self, tokens: list[tokenize_rt.Token]) -> str:
        prepared = [self._convert_text(token) for token in tokens]
        return str(tokenize_rt.tokens_to_src(self._unasync_tokens(prepared)))

    def replace_words(self, text: str) -> str:
        """Replace the names in a comment, or in a string without its quotes."""

        def replace(match: re.Match[str]) -> str:
            before, after = text[: match.start()], text[match.end() :]
            in_path = before.endswith(".") or re.match(r"\.\w", after)
            is_word = match[0].isalpha() and match[0].islower() and not ASYNC_ONLY.match(match[0])
            if is_word and not in_path and (before or after):
                return match[0]
            return self._unasync_name(match[0])

        return IDENTIFIER.sub(replace, text)

    def _convert_text(self, token: tokenize_rt.Token) -> tokenize_rt.Token:
        src = token.src
        if token.name == "COMMENT":
            src = self.replace_words(src)
        elif token.name == "STRING" and (parts := STRING.fullmatch(src)):
            prefix, quote, body = parts.groups()
            if {"f", "t"}.isdisjoint(prefix.lower()):
                src = f"{prefix}{quote}{self.replace_words(body)}{quote}"
        else:
            return token
        return token._replace(name="TEXT", src=src)  # a token name that unasync leaves alone


@dataclass
class Changes:
    """The difference between the copy on disk and the copy that the sources give."""

    write: dict[Path, str] = field(default_factory=dict)
    delete: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.write or self.delete)


def tokens_of(text: str) -> list[tokenize_rt.Token]:
    """Tokenize `text`, with each f-string as one token, as before Python 3.12."""
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


def hidden_names(module: ast.Module, rule: Rule) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each name in an f-string that will wrongly not be replaced."""
    for node in ast.walk(module):
        if isinstance(node, ast.FormattedValue):
            found = IDENTIFIER.findall(ast.unparse(node.value))
        elif isinstance(node, ast.JoinedStr):
            found = [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
        else:
            continue
        for name in found:
            if rule.replace_words(name) != name or ASYNC_ONLY.fullmatch(name):
                yield node.lineno, f'"{name}" is not replaced in an f-string: name it outside'


def definitions(module: ast.Module) -> set[tuple[int, bool]]:
    """Return the line of every class and def, and whether it is a class."""
    found = (node for node in ast.walk(module) if isinstance(node, DEFINITIONS))
    return {(node.lineno, isinstance(node, ast.ClassDef)) for node in found}


def repeated(module: ast.Module) -> set[tuple[int, str]]:
    """Return the line and name of each second definition in a module's or a class's body."""
    found = set()
    for node in ast.walk(module):
        known = set()
        for child in node.body if isinstance(node, (ast.Module, ast.ClassDef)) else ():
            if isinstance(child, DEFINITIONS):
                found |= {(child.lineno, child.name)} if child.name in known else set()
                known.add(child.name)
    return found


def flaws(source: ast.Module, text: str, copy: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each problem of a generated file, and what corrects it."""
    for token in tokens_of(copy):
        is_name = token.name == "NAME"
        if is_name or token.name in ("COMMENT", "STRING"):
            what = "is left over" if is_name else "in a comment or string is untrue"
            for match in ASYNC_ONLY.finditer(token.src):
                line = (token.line or 1) + token.src.count("\n", 0, match.start())
                yield line, f'"{match[0]}" {what} in the copy: {CURE}'
    generated = ast.parse(copy)
    for line, name in repeated(generated) - repeated(source):
        yield line, f'"{name}" is defined twice in the copy: give the two other names'
    moved = definitions(source) ^ definitions(generated)
    if moved or text.count("\n") != copy.count("\n"):
        yield min(moved)[0] if moved else 1, "the copy's lines differ"


def convert(path: Path, rule: Rule) -> tuple[str, list[tuple[int, str]]]:
    """Return the copy of one file, and its problems as lines and texts."""
    try:
        text = path.read_text(encoding="utf-8")
        module, tokens = ast.parse(text), tokens_of(text)
        copy = rule.convert(tokens)
        return copy, sorted({*hidden_names(module, rule), *flaws(module, text, copy)})
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        line = getattr(error, "lineno", None) or 1
        return "", [(line, f"the file or its copy can't be parsed: {error}")]


def files_under(folder: Path, pattern: str) -> list[Path]:
    files = (path.relative_to(folder) for path in folder.rglob(pattern) if not path.is_dir())
    return sorted(path for path in files if "__pycache__" not in path.parts)


def generate(root: Path, tree: Tree) -> dict[Path, str]:
    """Return the text of every file of the copy by its path, or raise RefusedError."""
    names = files_under(root / tree.source, "*.py")
    if not names:
        raise RefusedError(f"{tree.source}: no Python file to generate from")
    texts = [(root / tree.source / name).read_text("utf-8", "replace") for name in names]
    rule = Rule(tree, CLASS.findall("\n".join(texts)))
    copies, problems = {}, []
    for name in names:
        copies[root / tree.copy / name], wrong = convert(root / tree.source / name, rule)
        problems += [f"{tree.source}/{name.as_posix()}:{line}: {what}" for line, what in wrong]
    unused = sorted(tree.replacements.keys() - rule.used)
    problems += [f'{tree.source}: no file uses the replacement of "{key}"' for key in unused]
    if problems:
        raise RefusedError("\n".join(problems))
    return copies


def compare(root: Path, trees: Sequence[Tree]) -> Changes:
    changes = Changes()
    for tree in trees:
        if tree.needed_if and not (root / tree.needed_if).is_dir():
            continue
        wanted = generate(root, tree)
        present = {root / tree.copy / name for name in files_under(root / tree.copy, "*")}
        changes.delete += sorted(present - wanted.keys())
        for path, text in wanted.items():
            if path not in present or path.read_bytes() != text.encode():
                changes.write[path] = text
    return changes


def apply(changes: Changes, root: Path) -> None:
    for path, text in changes.write.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = root / f".{path.name}.{os.getpid()}"  # outside the tree: no orphan for another run
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
    """Print the changes as a diff, and the command that makes them."""
    for path in sorted([*changes.write, *changes.delete]):
        name = path.relative_to(root).as_posix()
        old = path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
        new = changes.write.get(path)
        before, after = (old or "").splitlines(), (new or "").splitlines()
        diff = difflib.unified_diff(before, after, "on disk", "generated", lineterm="")
        fate = "is orphaned" if new is None else "is missing" if old is None else "is out of date"
        print(f"{name} {fate}", *diff, sep="\n")
    print(f"\nTo correct it, run: {COMMAND}")


def main(
    argv: Sequence[str] | None = None, *, root: Path = ROOT, trees: Sequence[Tree] = TREES
) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if a file would change"
    )
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
