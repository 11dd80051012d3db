"""What each path answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from rsmi.app.server import schemas
from rsmi.app.server.answers import certify_answer, explain_answer, predict_answer
from rsmi.app.server.gate import facts_of
from rsmi.app.server.service import Decided, Service
from rsmi.method.windows import Cut

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorResponse, "description": text}
    for status, text in {
        400: "The body is no JSON.",
        401: "The API key is missing or wrong.",
        408: "The body did not arrive in time.",
        413: "The body is too long.",
        422: "The request cannot be answered as it is; the message says why.",
        429: "Too much to do; Retry-After says when to try again.",
        503: "The model is being loaded; Retry-After says when to try again.",
        504: "Not answered in time.",
    }.items()
}


def routes(service: Service, name: str) -> APIRouter:
    """Return all paths but the playground.

    Args:
        service: The model and its queues.
        name: Of the model, as answers show it.
    """
    router = APIRouter()

    @router.post("/v1/predict", responses=_ERRORS, response_model=schemas.PredictResponse, tags=["texts"])
    async def predict(wanted: schemas.TextsRequest, request: Request) -> Response:
        """Classify one text or several."""
        decided = await _decide(service, wanted, request)
        results = [predict_answer(own, service.model.max_length) for own in decided]
        return _json({"model": name, "quality": wanted.quality, "results": results})

    @router.post("/v1/explain", responses=_ERRORS, response_model=schemas.ExplainResponse, tags=["texts"])
    async def explain(wanted: schemas.TextsRequest, request: Request) -> Response:
        """Classify one text or several, and show votes, salient tokens and masks."""
        decided = await _decide(service, wanted, request)
        results = [explain_answer(own, service.model.max_length) for own in decided]
        return _json({"model": name, "quality": wanted.quality, "results": results})

    @router.post("/v1/certify", responses=_ERRORS, response_model=schemas.CertifyResponse, tags=["texts"])
    async def certify(wanted: schemas.CertifyRequest, request: Request) -> Response:
        """Prove what changes of a text leave its label alone."""
        fields = wanted.model_dump(exclude={"text", "texts"})
        samples = wanted.estimation_samples or service.settings.default_samples
        settings = service.certify_settings(**{**fields, "estimation_samples": samples})
        pairs = await service.certify(wanted.given, settings)
        _note(service, request, [cut for cut, _ in pairs], abstained=sum(own.abstained for _, own in pairs))
        results = [certify_answer(own, cut, service.model.max_length) for cut, own in pairs]
        return _json({"model": name, "results": results})

    @router.post(
        "/v1/attack",
        responses={**_ERRORS, 200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
        response_class=StreamingResponse,
        tags=["attack"],
    )
    async def attack(wanted: schemas.AttackRequest, request: Request) -> Response:
        """Attack a text and tell each query: a line of JSON an event, `start`, `query`, `again` and `end`."""
        (cut,) = await service.cut([wanted.text], whole=True)
        chosen = service.desk.attack(wanted.attack, wanted.max_queries)
        events = service.desk.begin(service.model, chosen, cut.text, wanted.label)
        _note(service, request, [cut], attack=chosen.name)
        return StreamingResponse(_lines(events), media_type="application/x-ndjson")

    @router.get("/v1/model", responses=_ERRORS, response_model=schemas.ModelResponse, tags=["server"])
    async def model() -> Response:
        """Tell what this server offers."""
        served, own = service.model, service.settings
        limits = ("max_texts", "max_tokens", "max_body", "max_samples", "timeout", "attack_queries")
        return _json(
            {
                "name": name,
                "version": version("rsmi"),
                "classes": list(served.classes),
                "max_tokens": served.max_length,
                "qualities": ["fast", "standard", *(["certified"] if served.kind else [])],
                "certificate": served.kind,
                "attacks": list(own.attacks),
                "limits": {limit: getattr(own, limit) for limit in limits},
            }
        )

    unready: dict[int | str, dict[str, Any]] = {503: {"model": schemas.StateResponse, "description": "Not now."}}

    @router.get("/healthz", responses=unready, response_model=schemas.StateResponse, tags=["server"])
    async def healthz() -> Response:
        """Tell whether the process works; if not, start it anew."""
        return JSONResponse({"status": "ok" if service.alive else "failed"}, 200 if service.alive else 503)

    @router.get("/readyz", responses=unready, response_model=schemas.StateResponse, tags=["server"])
    async def readyz() -> Response:
        """Tell whether to send requests: not while the model is loaded, nor once the server is to stop."""
        return JSONResponse({"status": service.state}, 200 if service.state == "ready" else 503)

    @router.get(
        "/metrics",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, 401: _ERRORS[401]},
        response_class=Response,
        tags=["server"],
    )
    async def metrics() -> Response:
        """Show counters in Prometheus' text format."""
        return Response(service.metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


async def _decide(service: Service, wanted: schemas.TextsRequest, request: Request) -> list[Decided]:
    decided = await service.decide(wanted.given, wanted.quality)
    _note(
        service,
        request,
        [own.cut for own in decided],
        quality=wanted.quality,
        escalated=sum(own.prediction.escalated for own in decided),
        abstained=sum(own.prediction.abstained for own in decided),
        under_attack=round(max(own.under_attack for own in decided), 3),
    )
    return decided


def _note(service: Service, request: Request, cuts: Sequence[Cut], **facts: Any) -> None:
    """Note for the log what a request was about."""
    counts = {"texts": len(cuts), "windows": sum(len(own.windows) for own in cuts)}
    counts["tokens"] = sum(own.tokens for own in cuts)
    facts_of(request.scope).update(counts, **facts)
    if service.settings.log_texts:
        facts_of(request.scope)["input"] = [own.text for own in cuts]


async def _lines(events: AsyncIterator[dict[str, Any]]) -> AsyncIterator[bytes]:
    async for event in events:
        yield json.dumps(event).encode() + b"\n"


def _json(content: dict[str, Any]) -> Response:
    """Return an answer as it is: checking it against its model once more would cost more than making it."""
    return Response(json.dumps(content, allow_nan=False).encode(), media_type="application/json")
