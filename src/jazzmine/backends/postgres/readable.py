"""The condition that a stored record can be read, as SQL, derived from the record's own fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jazzmine.records.base import Record

__all__ = ["is_readable"]

Schema = Mapping[str, Any]


def is_readable(kind: type[Record], expression: str) -> str:
    """Return the condition that a jsonb expression is certainly valid as a record.

    It is false for a valid value if a field has a type that is not known here.
    """
    schema = kind.model_json_schema()
    return _Conditions(schema.get("$defs", {})).of(expression, schema)


class _Conditions:
    """Writes conditions for the types of a JSON schema, as pydantic makes it.

    Args:
        definitions: the schemas of nested records, by name.
    """

    def __init__(self, definitions: Schema) -> None:
        self._definitions = definitions
        self._aliases = 0

    def of(self, value: str, schema: Schema) -> str:
        """Return the condition that a value, a jsonb expression, is valid by a schema."""
        if "$ref" in schema:
            return self.of(value, self._definitions[schema["$ref"].rpartition("/")[2]])
        if "anyOf" in schema:
            return f"({' OR '.join(self.of(value, one) for one in schema['anyOf'])})"
        kind = schema.get("type", "")
        name = "number" if kind == "integer" else kind
        conditions: dict[str, Callable[[str, Schema], str]] = {
            "string": _string,
            "integer": _number,
            "number": _number,
            "boolean": lambda value, schema: "true",
            "null": lambda value, schema: "true",
            "array": self._array,
            "object": self._object,
        }
        if kind not in conditions:
            return "false"
        # CASE, because AND may evaluate its second operand first.
        return (
            f"CASE WHEN jsonb_typeof({value}) = '{name}'"
            f" THEN {conditions[kind](value, schema)} ELSE false END"
        )

    def _array(self, value: str, schema: Schema) -> str:
        self._aliases += 1
        one = f"one_{self._aliases}"
        condition = self.of(one, schema["items"])
        elements = f"jsonb_array_elements({value}) AS elements ({one})"
        return f"NOT EXISTS (SELECT FROM {elements} WHERE NOT {condition})"

    def _object(self, value: str, schema: Schema) -> str:
        fields: Schema = schema.get("properties", {})
        if not fields:
            return "true" if schema.get("additionalProperties") is True else "false"
        names = ", ".join(map(_literal, fields))
        conditions = [f"{value} - ARRAY[{names}] = '{{}}'"]
        for name, field in fields.items():
            condition = self.of(f"({value} -> {_literal(name)})", field)
            if name not in schema.get("required", ()):
                condition = f"(NOT {value} ? {_literal(name)} OR {condition})"
            conditions.append(condition)
        return " AND ".join(conditions)


def _string(value: str, schema: Schema) -> str:
    text = f"({value} #>> '{{}}')"
    if "enum" in schema:
        return f"{text} IN ({', '.join(map(_literal, schema['enum']))})"
    if not schema.keys() <= {"type", "title", "description", "default", "minLength"}:
        return "false"
    return f"length({text}) >= {schema['minLength']}" if schema.get("minLength") else "true"


def _number(value: str, schema: Schema) -> str:
    number = f"{value}::numeric"
    limits = [
        f"{number} {sign} {schema[name]}"
        for name, sign in (("minimum", ">="), ("maximum", "<="))
        if name in schema
    ]
    return " AND ".join(limits) or "true"


def _literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
