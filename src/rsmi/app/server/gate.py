"""Every request passes here: its id, key, size, number and time; and what is logged and counted of it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from typing import Any, TypeAlias

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rsmi.app.server.failures import (
    Internal,
    Overloaded,
    ServeFailure,
    TooLarge,
    TooSlow,
    Unauthorised,
    error_body,
)
from rsmi.app.server.logs import LOGGER
from rsmi.app.server.service import Service

Facts: TypeAlias = dict[str, Any]
ROUTES = (
    "/",
    "/healthz",
    "/metrics",
    "/openapi.json",
    "/readyz",
    "/v1/attack",
    "/v1/certify",
    "/v1/explain",
    "/v1/model",
    "/v1/predict",
)
"""Every path there is; whatever else is asked for is counted as `other`."""
_OPEN = ("/", "/healthz", "/openapi.json", "/readyz")
"""Paths that need no key: they say nothing about texts or load."""
_OWN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
_HUNG_UP = 499  # nginx' number for a client that did not wait

_log = logging.getLogger(LOGGER)


def facts_of(scope: Scope) -> Facts:
    """Return where a route notes what is logged about its request; no texts."""
    facts: Facts = scope["rsmi.facts"]
    return facts


class Gate:
    """The outermost layer: nothing behind it can answer with a stack trace, or without being counted.

    Args:
        app: What is behind it.
        service: The model and its settings.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service, self.settings = app, service, service.settings
        self.accepted = self.answered = self.in_work = 0
        key = self.settings.api_key
        self._key = None if key is None else hashlib.sha256(key.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request through."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        visit = _Visit(scope, send, self.service)
        self.accepted += 1
        self._count(1)
        try:
            if scope["path"] not in _OPEN:
                self._check_key(dict(scope["headers"]))
            if scope["path"].startswith("/v1/") and self.in_work > self.settings.max_requests:
                raise Overloaded(1, "too many requests at once")
            body = await self._body(scope, receive)
            await self._pass_on(scope, body, receive, visit)
        except ServeFailure as failure:
            await visit.fail(failure)
        except Exception:  # a mistake of ours: the log knows, the client does not
            _log.exception("failed", extra={"facts": {"request_id": visit.request_id, "route": visit.route}})
            await visit.fail(Internal())
        finally:
            self._count(-1)
            self.answered += visit.complete
            visit.note()

    def _count(self, more: int) -> None:
        self.in_work += more
        self.service.metrics.in_work.set(self.in_work)

    def _check_key(self, headers: dict[bytes, bytes]) -> None:
        if self._key is None:
            return
        scheme, _, bearer = headers.get(b"authorization", b"").partition(b" ")
        given = bearer.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        if not hmac.compare_digest(hashlib.sha256(given).digest(), self._key):  # as long for any guess
            raise Unauthorised

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        limit = self.settings.max_body
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > limit:
            raise TooLarge(f"expected a body of at most {limit} bytes, got more")
        try:
            return await asyncio.wait_for(_read(receive, limit), self.settings.timeout)
        except asyncio.TimeoutError:
            raise TooSlow(f"expected the whole body within {self.settings.timeout:g} s") from None

    async def _pass_on(self, scope: Scope, body: bytes, receive: Receive, visit: _Visit) -> None:
        """Run what is behind the gate, but no longer than the client waits."""
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return pending.pop() if pending else await receive()

        inside = asyncio.ensure_future(self.app(scope, again, visit.send))
        gone = asyncio.ensure_future(_hung_up(receive))
        try:
            await asyncio.wait((inside, gone), return_when=asyncio.FIRST_COMPLETED)
            if not inside.done():
                visit.hung_up = True
                inside.cancel()
            await inside
        except asyncio.CancelledError:
            if not visit.hung_up:
                inside.cancel()
                raise
        finally:
            gone.cancel()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass  # after the body nothing else is of interest


async def _read(receive: Receive, limit: int) -> bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise TooSlow("the client hung up")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > limit:
            raise TooLarge(f"expected a body of at most {limit} bytes, got more")
    return b"".join(parts)


class _Visit:
    """One request and its answer."""

    def __init__(self, scope: Scope, send: Send, service: Service) -> None:
        self._send, self._service, self._start = send, service, time.monotonic()
        given = dict(scope["headers"]).get(b"x-request-id", b"")
        self.request_id = given.decode() if _OWN_ID.fullmatch(given) else secrets.token_hex(8)
        self.route = scope["path"] if scope["path"] in ROUTES else "other"
        self.method = str(scope["method"])
        self.status, self.complete, self.hung_up = 0, False, False
        self.facts: Facts = {}
        scope["rsmi.facts"], scope["rsmi.request_id"] = self.facts, self.request_id

    async def send(self, message: Message) -> None:
        """Pass on a part of the answer, with headers that all answers have."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = [*_SAFE, (b"x-request-id", self.request_id.encode())]
            if self._service.state == "draining":
                own.append((b"connection", b"close"))
            message = {**message, "headers": [*message.get("headers", []), *own]}
        await self._send(message)
        self.complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def fail(self, failure: ServeFailure) -> None:
        """Answer with what went wrong, unless an answer has begun."""
        if self.status:
            return
        body = error_body(failure.kind, str(failure), self.request_id)
        headers = [(name.lower().encode(), value.encode()) for name, value in failure.headers.items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.send({"type": "http.response.start", "status": failure.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def note(self) -> None:
        """Log and count the request."""
        seconds = time.monotonic() - self._start
        status = _HUNG_UP if self.hung_up and not self.complete else self.status
        metrics = self._service.metrics
        metrics.requests.labels(self.route, str(status)).inc()
        metrics.seconds.labels(self.route).observe(seconds)
        about = {"request_id": self.request_id, "method": self.method, "route": self.route, "status": status}
        _log.info("request", extra={"facts": {**about, "seconds": round(seconds, 4), **self.facts}})
