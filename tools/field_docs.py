"""Classes -> their fields with type, default and meaning, read from the source; for pages made from code."""

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Field:
    """One field of a class."""

    name: str
    kind: str
    default: str
    """As JSON or a setting would have it; empty where there is none."""
    meaning: str


def fields_of(thing: type, words: Mapping[str, str] | None = None) -> list[Field]:
    """Return the public fields of a dataclass or a pydantic model.

    Args:
        thing: The class.
        words: Meanings of fields that say nothing about themselves; one that does may not be among them.
    """
    words = words or {}
    said = {**_inherited_strings(thing), **_descriptions(thing)}
    names = [name for name in _names(thing) if not name.startswith("_")]
    twice = set(said) & set(words) & set(names)
    missing = [name for name in names if name not in said and name not in words]
    if twice or missing or set(words) - set(names):
        raise ValueError(f"{thing.__name__}: twice {twice}, missing {missing}, unknown {set(words) - set(names)}")
    hints = get_type_hints(thing)
    return [Field(name, kind_of(hints[name]), _default(thing, name), {**words, **said}[name]) for name in names]


def table(rows: Sequence[Field], with_default: bool = False) -> list[str]:
    """Return a Markdown table of fields."""
    lines = ["| Field | Type |" + " Default |" * with_default + " Meaning |", "|---|---|---|" + "---|" * with_default]
    for own in rows:
        default = f" `{_cell(own.default)}` |" * with_default
        lines.append(f"| `{own.name}` | {_cell(own.kind)} |{default} {_cell(own.meaning)} |")
    return lines


def kind_of(hint: Any) -> str:
    """Return a type in words."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is type(None):
        return "null"
    if origin is Literal:
        return ", ".join(f"`{part}`" for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(kind_of(part) for part in parts))
    if origin is dict:
        return f"object of {kind_of(parts[1])}"
    if origin is tuple and (len(parts) != 2 or parts[1] is not Ellipsis):
        return f"[{', '.join(kind_of(part) for part in parts)}]"
    if origin in (list, tuple):
        return f"list of {kind_of(parts[0])}"
    if hasattr(hint, "__metadata__"):
        return kind_of(hint.__origin__)
    names = {str: "text", int: "integer", float: "number", bool: "true or false"}
    return names.get(hint) or f"`{hint.__name__}`"


def strings_of(thing: type) -> dict[str, str]:
    """Return the strings that stand below the fields of a class, and the first lines of its properties' docstrings."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    found: dict[str, str] = {}
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef):
            found[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(after, ast.Expr):
            found[node.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return found


def _inherited_strings(thing: type) -> dict[str, str]:
    return {
        k: v for own in reversed(thing.__mro__) if own.__module__.startswith("rsmi") for k, v in strings_of(own).items()
    }


def _names(thing: Any) -> list[str]:
    return [own.name for own in fields(thing)] if is_dataclass(thing) else list(thing.model_fields)


def _descriptions(thing: Any) -> dict[str, str]:
    models = getattr(thing, "model_fields", {})
    return {name: own.description for name, own in models.items() if own.description}


def _default(thing: Any, name: str) -> str:
    if not is_dataclass(thing):
        return ""
    (own,) = [own for own in fields(thing) if own.name == name]
    return "" if own.default is MISSING else written(own.default)


def written(value: Any) -> str:
    """Return a value as `--set` and JSON write it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
