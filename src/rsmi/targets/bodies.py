"""A template and texts -> the JSON bodies of questions to an HTTP endpoint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rsmi.errors import ConfigError
from rsmi.records import TextInput

OWN_PATH: Final = "/v1/predict"
"""Where `rsmi serve` answers."""
OWN_BODY: Final = '{"texts": ["{text}"]}'
"""What it is asked."""
_FIELD = re.compile(r"\{(text|first|second)\}")


def default_body(path: str, num_classes: int, pairs: bool) -> str:
    """Return the body for an address: that of `rsmi serve`, else that of the endpoints around transformers' pipelines.

    These need to be told how many classes they shall score, or they score the best one alone.
    """
    if path.rstrip("/").endswith(OWN_PATH):
        return OWN_BODY
    item = {"text": "{first}", "text_pair": "{second}"} if pairs else "{text}"
    return json.dumps({"inputs": [item], "parameters": {"top_k": num_classes}})


class BodyTemplate:
    """JSON in which `{text}` stands for a text, `{first}` and `{second}` for those of a pair.

    The outermost list of one element around them is filled with an element for each text; without such a list a
    question is about one text. A pair in the place of `{text}` is a list of two.

    Args:
        template: The JSON.

    Raises:
        ConfigError: If it is no JSON, or has no place for a text.
    """

    def __init__(self, template: str) -> None:
        try:
            self._json = json.loads(template)
        except ValueError as error:
            raise ConfigError(f"body: expected JSON such as {OWN_BODY}, got {template!r} ({error})") from error
        if not _holds_text(self._json):
            raise ConfigError(f"body: expected {{text}} where the text goes, as in {OWN_BODY}; got {template!r}")
        self.together = _has_list(self._json)
        """Whether one question may be about several texts."""

    def filled(self, texts: list[TextInput]) -> Any:
        """Return the body that asks about texts; about one, where there is no place for several."""
        return _filled(self._json, texts)


def _filled(value: Any, texts: list[TextInput]) -> Any:
    if isinstance(value, str):
        return _one(value, texts[0])
    if isinstance(value, Mapping):
        return {key: _filled(own, texts) for key, own in value.items()}
    if isinstance(value, list):
        if _is_place(value):
            return [_filled_once(value[0], text) for text in texts]
        return [_filled(own, texts) for own in value]
    return value


def _filled_once(value: Any, text: TextInput) -> Any:
    """Fill what stands in the list of texts: lists in it are what they are."""
    if isinstance(value, str):
        return _one(value, text)
    if isinstance(value, Mapping):
        return {key: _filled_once(own, text) for key, own in value.items()}
    return [_filled_once(own, text) for own in value] if isinstance(value, list) else value


def _one(value: str, text: TextInput) -> Any:
    if value == "{text}":
        return text if isinstance(text, str) else list(text)
    parts = (text, None) if isinstance(text, str) else text
    wanted = {"text": text if isinstance(text, str) else None, "first": parts[0], "second": parts[1]}
    for name in _FIELD.findall(value):
        if wanted[name] is None:
            kind = "a text" if isinstance(text, str) else "a pair"
            raise ConfigError(f"body: expected no {{{name}}} in {value!r}, since the data has {kind} in each row")
    return _FIELD.sub(lambda found: str(wanted[found[1]]), value)  # in one pass: texts may hold braces, too


def _is_place(value: list[Any]) -> bool:
    return len(value) == 1 and _holds_text(value)


def _has_list(value: Any) -> bool:
    if isinstance(value, list):
        return _is_place(value) or any(_has_list(own) for own in value)
    return isinstance(value, Mapping) and any(_has_list(own) for own in value.values())


def _holds_text(value: Any) -> bool:
    return any(_FIELD.search(string) for string in _strings(value))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for own in value.values():
            yield from _strings(own)
    elif isinstance(value, list):
        for own in value:
            yield from _strings(own)
