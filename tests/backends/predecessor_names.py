"""Find the public names of jazzmine 0.1.42's two packages.

Its source is parsed, never run, since it imports drivers that nothing else here needs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic

from tests.servers import predecessor

PACKAGES = ("message_store", "working_memory")


def names_of_source() -> dict[str, Any]:
    """Return the public names of each module: its exports, and the members of its classes.

    Of each parameter it says whether it has a default.
    """
    predecessor.make(pydantic.VERSION)
    core = predecessor.SOURCE / "jazzmine" / "core"
    files = [path for package in PACKAGES for path in sorted((core / package).rglob("*.py"))]
    trees = {_module_name(core, path): ast.parse(path.read_text("utf-8")) for path in files}
    return {
        module: {"names": sorted(_public_names(tree)), "classes": dict(_classes(tree))}
        for module, tree in sorted(trees.items())
    }


def _module_name(core: Path, path: Path) -> str:
    parts = path.relative_to(core).with_suffix("").parts
    return ".".join(("jazzmine.core", *parts)).removesuffix(".__init__")


def _public_names(tree: ast.Module) -> set[str]:
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names.update(ast.literal_eval(node.value))
    return {name for name in names if not name.startswith("_")}


def _classes(tree: ast.Module) -> Iterator[tuple[str, dict[str, Any]]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            is_enum = any("Enum" in ast.unparse(base) for base in node.bases)
            yield node.name, _enum(node) if is_enum else _class(node)


def _enum(owner: ast.ClassDef) -> dict[str, Any]:
    members = [node for node in owner.body if isinstance(node, ast.Assign)]
    return {"enum": {ast.unparse(m.targets[0]): ast.literal_eval(m.value) for m in members}}


def _class(owner: ast.ClassDef) -> dict[str, Any]:
    found: dict[str, Any] = {"attributes": [], "methods": {}}
    fields = {
        ast.unparse(node.target): _is_optional(node.value)
        for node in owner.body
        if isinstance(node, ast.AnnAssign)
    }
    if fields:
        found["methods"]["__init__"] = {"waits": False, "parameters": fields}
    for node in owner.body:
        if isinstance(node, ast.Assign):
            found["attributes"] += [ast.unparse(target) for target in node.targets]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            decorators = {ast.unparse(one) for one in node.decorator_list}
            if "property" in decorators:
                found["attributes"].append(node.name)
            elif not node.name.startswith("_") or node.name == "__init__":
                found["methods"][node.name] = _method(node)
    found["attributes"] = sorted(n for n in found["attributes"] if not n.startswith("_"))
    return found


def _method(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Any]:
    arguments = node.args.args
    required = len(arguments) - len(node.args.defaults)
    parameters = {each.arg: number >= required for number, each in enumerate(arguments)}
    parameters.pop("self", None)
    parameters.pop("cls", None)
    return {"waits": isinstance(node, ast.AsyncFunctionDef), "parameters": parameters}


def _is_optional(default: ast.expr | None) -> bool:
    if isinstance(default, ast.Call):
        return any(option.arg in ("default", "default_factory") for option in default.keywords)
    return default is not None
