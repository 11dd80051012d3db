"""Bodies that no client should send, as many as wanted."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

PATHS = ("/v1/predict", "/v1/explain", "/v1/certify", "/v1/attack")
_STRINGS = (
    "",
    " ",
    "good film",
    "\x00",
    "a\x00b",
    "\ud800",
    "film \udfff",
    "\u202e\u200b\ufeff",
    "\x1b[31mred",
    "[MASK] [SEP] </s> <extra_id_0>",
    "\U0001f600" * 50,
    "e" + "\u0301" * 500,
    "x" * 5000,
    "good " * 3000,
    "\n" * 300,
    "\uffff\ufffe",
    "../../etc/passwd",
    "<script>alert(1)</script>",
    "{{7*7}}${7*7}%s%n",
    "\u0600\ufdfa" * 20,
)
_ODD = (None, True, 0, -1, 1e308, 10**30, [], {}, [[]], {"text": "x"}, float("nan"), float("inf"), -0.0)
_FIELDS = ("text", "texts", "quality", "kind", "masking", "bound", "radius", "failure_prob", "estimation_samples")
_FIELDS += ("selection_samples", "label", "attack", "max_queries", "nonsense", "__proto__")


def _value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.45 or depth > 2:
        return rng.choice(_STRINGS)
    if kind < 0.7:
        return rng.choice(_ODD)
    if kind < 0.9:
        return [_value(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {rng.choice(_FIELDS): _value(rng, depth + 1) for _ in range(rng.randrange(3))}


def _nested(rng: random.Random) -> bytes:
    depth = rng.choice((10, 1000, 100_000))
    opening, closing = rng.choice(((b"[", b"]"), (b'{"text":', b"}")))
    return opening * depth + b"1" + (closing * depth if rng.random() < 0.5 else b"")


def _raw(rng: random.Random) -> bytes:
    choices = (
        b"",
        b"null",
        b"NaN",
        b'"text"',
        b'{"text": "\\ud800"}',
        b'{"text": "\xff\xfe"}',
        b'{"text": NaN}',
        b'{"text": "a", "text": "b"}',
        b'\xef\xbb\xbf{"text": "good"}',
        '{"text": "good"}'.encode("utf-16"),
        b'{"estimation_samples": 1e400, "text": "good"}',
        b'{"text": "' + b"good " * 200_000 + b'"}',
        rng.randbytes(rng.randrange(1, 2000)),
    )
    return rng.choice(choices)


def _body(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.15:
        return _raw(rng)
    if kind < 0.2:
        return _nested(rng)
    values = {} if kind < 0.5 else {name: _value(rng) for name in rng.sample(_FIELDS, rng.randrange(1, 4))}
    if kind < 0.7:  # sensible but for the text, to get past the first check
        values["text"] = rng.choice(_STRINGS) if rng.random() < 0.8 else [rng.choice(_STRINGS) for _ in range(2)]
        values.pop("texts", None)
    body = json.dumps(values).encode()
    if rng.random() < 0.1:  # a byte is flipped, or the end is lost
        place = rng.randrange(len(body))
        body = body[:place] + (bytes([rng.randrange(256)]) + body[place + 1 :] if rng.random() < 0.5 else b"")
    return body


def hostile(count: int, seed: int) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """Yield paths, headers and bodies."""
    rng = random.Random(seed)
    types = ("application/json",) * 8 + ("text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data")
    for _ in range(count):
        headers = {"Content-Type": rng.choice(types)}
        if rng.random() < 0.05:
            headers |= {"X-Request-ID": "x" * rng.randrange(200), "X-API-Key": "\u00e9"}
        yield rng.choice(PATHS), headers, _body(rng)
