"""What can go wrong with a request -> a status, a word for programs and a sentence for people."""

from __future__ import annotations

import json
from typing import Any, ClassVar


class ServeFailure(Exception):
    """A request that is not answered as asked; the message may be shown to anybody."""

    status: ClassVar[int]
    kind: ClassVar[str]

    def __init__(self, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.headers = headers or {}


class Refused(ServeFailure):
    """The request is well-formed but cannot be answered."""

    status, kind = 422, "invalid"


class Malformed(ServeFailure):
    """The body is no JSON."""

    status, kind = 400, "malformed"


class Unauthorised(ServeFailure):
    """The key is missing or wrong."""

    status, kind = 401, "unauthorised"

    def __init__(self) -> None:
        super().__init__(
            "expected an API key, as Authorization: Bearer KEY or X-API-Key: KEY; got none, or another one",
            {"WWW-Authenticate": "Bearer"},
        )


class TooSlow(ServeFailure):
    """The body did not arrive in time."""

    status, kind = 408, "slow"


class TooLarge(ServeFailure):
    """The body is too long."""

    status, kind = 413, "too-large"


class Overloaded(ServeFailure):
    """The queue is full."""

    status, kind = 429, "overloaded"

    def __init__(self, seconds: int, message: str = "the queue is full") -> None:
        super().__init__(f"{message}; try again in {seconds} s", {"Retry-After": str(seconds)})


class NotReady(ServeFailure):
    """The model is still being loaded."""

    status, kind = 503, "not-ready"

    def __init__(self, message: str = "the model is being loaded; try again in 2 s") -> None:
        super().__init__(message, {"Retry-After": "2"})


class TooLate(ServeFailure):
    """The answer did not come in time."""

    status, kind = 504, "timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"not answered within {seconds:g} s; send fewer or shorter texts, or try again later")


class Internal(ServeFailure):
    """Something that should not happen."""

    status, kind = 500, "internal"

    def __init__(self) -> None:
        super().__init__("internal error; the server's log has it under this request_id")


def error_body(kind: str, message: str, request_id: str, details: list[dict[str, Any]] | None = None) -> bytes:
    """Return the body of every answer that is not 200."""
    error: dict[str, Any] = {"type": kind, "message": message, "request_id": request_id}
    if details is not None:
        error["details"] = details
    return json.dumps({"error": error}).encode()
