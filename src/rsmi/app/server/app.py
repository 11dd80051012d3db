"""A classifier and settings -> the ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from rsmi.app.server.failures import error_body
from rsmi.app.server.gate import Gate
from rsmi.app.server.metrics import Metrics
from rsmi.app.server.playground import playground
from rsmi.app.server.routes import routes
from rsmi.app.server.service import Service
from rsmi.app.server.settings import ServeConfig
from rsmi.classifier import RsmiClassifier

_SHOWN = 10  # mistakes of a request that are listed
_WORDS = {400: "malformed", 404: "not-found", 405: "not-allowed"}


def create_app(
    load: Callable[[], RsmiClassifier],
    settings: ServeConfig | None = None,
    *,
    name: str = "model",
    failed: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the application; `app.state.service` is what is behind it.

    Args:
        load: Returns the classifier; called in a thread once the application has started.
        settings: Limits, time and what is switched on.
        name: Of the model, as answers show it; no path.
        failed: Called if `load` raises; the exception is in `app.state.service.failure`.
    """
    service = Service(load, settings or ServeConfig(), Metrics())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start(failed)
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="rsmi",
        version=version("rsmi"),
        description="A text classifier that holds up under adversarial attack.",
        lifespan=lifespan,
        docs_url=None,  # these pages would load scripts from elsewhere
        redoc_url=None,
        exception_handlers={RequestValidationError: _invalid, HTTPException: _refused},
    )
    app.state.service = service
    app.include_router(routes(service, name))
    if service.settings.playground:
        app.get("/", include_in_schema=False)(playground)
    if service.settings.api_key is not None:
        _declare_key(app)
    app.state.gate = None

    def gate(inner: Any) -> Gate:
        app.state.gate = Gate(inner, service)
        return app.state.gate  # type: ignore[no-any-return]

    app.add_middleware(gate)
    return app


async def _invalid(request: Request, error: Exception) -> Response:
    """Tell what is wrong with a body, without repeating it."""
    found: list[Any] = list(error.errors()) if isinstance(error, RequestValidationError) else []
    details = [
        {"field": _field(own["loc"]), "message": own["msg"].removeprefix("Value error, ")[:200]}
        for own in found[:_SHOWN]
    ]
    if any(own["type"] == "json_invalid" for own in found):
        return _answer(request, 400, "malformed", "expected a body of JSON, got something else", None)
    first = f"{details[0]['field']}: {details[0]['message']}" if details else "not as expected"
    return _answer(request, 422, "invalid", first, details)


def _field(place: tuple[str | int, ...]) -> str:
    """Return where a mistake is, such as `texts.3`; the parts of a union, which pydantic names too, are left out."""
    parts = [str(part) for part in place[1:] if isinstance(part, int) or part.isidentifier()]
    return ".".join(parts)[:100] or "body"


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    headers = dict(getattr(error, "headers", None) or {})
    message = {404: "no such path", 405: "another method is expected here"}.get(status, "the body cannot be read")
    return _answer(request, status, _WORDS.get(status, "refused"), message, None, headers)


def _answer(
    request: Request,
    status: int,
    kind: str,
    message: str,
    details: list[dict[str, Any]] | None,
    headers: dict[str, str] | None = None,
) -> Response:
    body = error_body(kind, message, request.scope["rsmi.request_id"], details)
    return Response(body, status, headers, "application/json")


def _declare_key(app: FastAPI) -> None:
    """Say in the OpenAPI document that a key is needed."""
    plain = app.openapi

    def declared() -> dict[str, Any]:
        schema = plain()
        schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
        schema.setdefault("components", {})["securitySchemes"] = schemes
        schema["security"] = [{"bearer": []}]
        return schema

    app.openapi = declared  # type: ignore[method-assign]
