"""A classifier behind an HTTP address, as something to attack."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rsmi.errors import ConfigError, TargetError
from rsmi.method.inputs import as_count
from rsmi.records import Label, TextInput
from rsmi.targets.answers import AnswerReader, UnexpectedAnswer
from rsmi.targets.base import ForeignTarget, shown
from rsmi.targets.bodies import BodyTemplate, default_body
from rsmi.targets.transport import Endpoint

_BEARER = "Authorization"
_NOTE = (
    "asked over HTTP, so there is no fingerprint of its weights: the numbers are about whatever answered at this "
    "address during the run"
)


class HttpTarget(ForeignTarget):
    """A classifier that answers JSON by POST.

    By itself it knows `POST /v1/predict` of `rsmi serve`, and endpoints around transformers' pipelines, which are asked
    `{"inputs": [texts], "parameters": {"top_k": classes}}` and answer a list of `{"label", "score"}` for each text.

    Args:
        url: The address.
        classes: The classes as the data calls them; their order matters only if answers are lists of numbers.
        rename: What the answers call a class -> what the data calls it, where the two differ.
        body: JSON to send, with `{text}` where the text goes; see `BodyTemplate`.
        answer: Where the probabilities are in the answer, such as `predictions.*.scores`; see `AnswerReader`.
        key_variable: Environment variable that holds an API key.
        key_header: Header that it is sent in; as `Bearer KEY` if that is `Authorization`.
        timeout: Seconds until a question is given up.
        retries: How often a question is asked again that was answered with 429 or 503, when `Retry-After` says so.
        batch_size: Texts of one question at most, where the body has a place for several.
        randomised: Whether it may answer the same text differently.
        blank: Sent in the place of a text without any visible character, which many services refuse: attacks leave
            words out, also the last one.

    Raises:
        ConfigError: If an argument cannot be used, or the environment variable is not set.
    """

    def __init__(
        self,
        url: str,
        classes: Sequence[Label],
        *,
        rename: Mapping[str, str] | None = None,
        body: str | None = None,
        answer: str | None = None,
        key_variable: str | None = None,
        key_header: str = _BEARER,
        timeout: float = 30.0,
        retries: int = 5,
        batch_size: int = 32,
        randomised: bool = False,
        blank: str = ".",
    ) -> None:
        key = None if key_variable is None else _key(key_variable)
        self._endpoint = Endpoint(url, timeout, retries, _headers(key, key_header), key or "")
        super().__init__(self._endpoint.name, classes, randomised)
        self._reader = AnswerReader(tuple(self.classes_.tolist()), dict(rename or {}), answer)
        paths = {pairs: body or default_body(self._endpoint.path, len(self.classes_), pairs) for pairs in (False, True)}
        self._bodies = {pairs: BodyTemplate(own) for pairs, own in paths.items()}
        self._asked = {"body": body or paths[False], "answer": answer, "rename": dict(rename or {}), "blank": blank}
        self.batch_size = as_count(batch_size, "batch_size", 1)
        self.blank = blank

    def answers(self, texts: list[TextInput]) -> list[list[float]]:
        """Ask about texts, a few at a time."""
        template = self._bodies[not isinstance(texts[0], str)]
        size = self.batch_size if template.together else 1
        rows: list[list[float]] = []
        for start in range(0, len(texts), size):
            part = [self._visible(text) for text in texts[start : start + size]]
            answer = self._endpoint.ask(template.filled(part))
            try:
                rows += self._reader.rows(answer, len(part))
            except UnexpectedAnswer as error:
                raise TargetError(f"{self.name}: {error}; the answer was {shown(answer)}") from error
        return rows

    @property
    def about(self) -> dict[str, Any]:
        """Its address and how it is asked; neither the key nor what follows `?` in the address."""
        config = {"classes": self.classes_.tolist(), "randomised": self.randomised, **self._asked}
        return {"name": self.name, "kind": "http", "config": config, "note": _NOTE}

    def _visible(self, text: TextInput) -> TextInput:
        if isinstance(text, str):
            return text if text.strip() else self.blank
        return (text[0] if text[0].strip() else self.blank, text[1] if text[1].strip() else self.blank)


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(f"key_variable: expected an API key in the environment variable {variable}, got none; set it")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"key_variable: expected printable ASCII in {variable}, got something else")
    return key


def _headers(key: str | None, header: str) -> dict[str, str]:
    if not (header.isascii() and header.replace("-", "").replace("_", "").isalnum()):
        raise ConfigError(f"key_header: expected the name of a header, such as X-API-Key; got {header!r}")
    if key is None:
        return {}
    return {header: f"Bearer {key}" if header.lower() == _BEARER.lower() else key}
