"""Pickle of plain data -> that data, by reading its opcodes: nothing in the file can be called or imported."""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, Final

from rsmi.errors import DataError

_SET: Final = object()  # stands for the builtin `set`, the one name a file may mention
_MARK: Final = object()
_SET_NAMES: Final = ("__builtin__ set", "builtins set")
_CONSTANTS: Final = ("SHORT_BINSTRING", "BINSTRING", "BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT", "BININT", "BININT1")
_EMPTY: Final[dict[str, Callable[[], Any]]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_TUPLES: Final = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_pickled_data(content: bytes, name: str) -> Any:
    """Return the strings, numbers, dicts, lists, tuples and sets a pickle describes.

    Args:
        content: The pickle.
        name: What to call it in messages.

    Raises:
        DataError: If it holds anything else, or is cut short.
    """
    try:
        return _run(content, name)
    except DataError:
        raise
    except Exception as error:  # pickletools and a stack that does not fit raise half a dozen types
        reason = str(error) or type(error).__name__
        raise DataError(f"{name}: expected a pickle of plain data, got a damaged one ({reason})") from error


def _run(content: bytes, name: str) -> Any:
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for opcode, argument, position in pickletools.genops(content):
        kind = opcode.name
        if kind in _CONSTANTS:
            stack.append(argument)
        elif kind in ("BINGET", "LONG_BINGET"):
            stack.append(memo[_number(argument)])
        elif kind in ("BINPUT", "LONG_BINPUT"):
            memo[_number(argument)] = stack[-1]
        elif kind in _EMPTY:
            stack.append(_EMPTY[kind]())
        elif kind == "MARK":
            stack.append(_MARK)
        elif kind == "SETITEMS":
            items = _to_mark(stack)
            stack[-1].update(zip(items[::2], items[1::2], strict=True))
        elif kind == "SETITEM":
            value, key = stack.pop(), stack.pop()
            stack[-1].update({key: value})
        elif kind == "APPEND":
            value = stack.pop()
            stack[-1].append(value)
        elif kind == "APPENDS":
            items = _to_mark(stack)
            stack[-1].extend(items)
        elif kind in _TUPLES:
            items = [stack.pop() for _ in range(_TUPLES[kind])]
            stack.append(tuple(items[::-1]))
        elif kind == "GLOBAL" and argument in _SET_NAMES:
            stack.append(_SET)
        elif kind == "REDUCE" and stack[-2] is _SET and isinstance(stack[-1], tuple):
            (items,) = stack.pop()
            stack[-1] = set(items)
        elif kind == "STOP":
            (result,) = stack
            return result
        elif kind != "PROTO":
            what = kind if argument is None else f"{kind} {argument}"
            raise DataError(f"{name}: expected a pickle of plain data, got {what!r} at byte {position}")
    raise DataError(f"{name}: expected a pickle of plain data, got one without an end")


def _to_mark(stack: list[Any]) -> list[Any]:
    place = len(stack) - 1
    while stack[place] is not _MARK:
        place -= 1
    items = stack[place + 1 :]
    del stack[place:]
    return items


def _number(argument: Any) -> int:
    if not isinstance(argument, int):
        raise ValueError(f"expected a place in the memo, got {argument!r}")
    return argument
