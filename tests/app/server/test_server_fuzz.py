"""Whatever is sent, the answer is one of the documented ones, and never a mistake of ours."""

from __future__ import annotations

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from server_inputs import hostile

CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance, content_type_conformance]
SMALL = {"max_samples": 60, "default_samples": 30, "attack_queries": 8, "max_tokens": 400, "latency_budget": 0.0}


def test_hostile_bodies_get_an_answer_or_a_client_error(serve):
    statuses = {}
    with serve(**SMALL) as client:
        for path, headers, body in hostile(400, seed=0):
            raw = {name: value.encode("latin-1") for name, value in headers.items()}
            answer = client.post(path, content=body, headers=raw)
            statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
            assert answer.status_code in (200, 400, 413, 422), (path, headers, body[:200], answer.text[:200])
            if answer.status_code != 200:
                assert set(answer.json()["error"]) >= {"type", "message", "request_id"}
                assert len(answer.content) < 4000
            assert b"Traceback" not in answer.content
            assert b"site-packages" not in answer.content
        assert client.post("/v1/predict", json={"text": "good film"}).status_code == 200
    assert statuses[200] > 20
    assert statuses[400] > 5
    assert statuses[413] > 1
    assert statuses[422] > 100


@pytest.mark.parametrize("depth", [500, 5_000, 200_000])
def test_deep_json_is_refused(serve, depth):
    with serve(**SMALL) as client:
        answer = client.post(
            "/v1/predict", content=b"[" * depth + b"]" * depth, headers={"Content-Type": "application/json"}
        )
    assert answer.status_code in (400, 422)


def test_text_that_is_strange_but_text_is_classified(serve):
    strange = ["\x00", "a\x00b", "\u202egood", "\ufeff", "\U0001f600" * 20, "e" + "\u0301" * 100, "[MASK] [SEP]"]
    with serve(**SMALL) as client:
        answer = client.post("/v1/explain", json={"texts": strange})
    assert answer.status_code == 200, answer.text
    assert [own["text"] for own in answer.json()["results"]] == strange


def test_a_lone_surrogate_is_refused_and_not_repeated(serve):
    with serve(**SMALL) as client:
        answer = client.post(
            "/v1/predict", content=b'{"text": "film \\ud800"}', headers={"Content-Type": "application/json"}
        )
    assert answer.status_code == 422
    assert "\\ud800" not in answer.text


@pytest.mark.slow
def test_schemathesis_finds_no_undocumented_answer(live):
    seen = set()
    budget = hypothesis.settings(max_examples=20, suppress_health_check=list(hypothesis.HealthCheck))
    with live(**SMALL) as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        for operation in schema.get_all_operations():
            own = operation.ok()

            @budget
            @hypothesis.given(case=own.as_strategy())
            def check(case):
                answer = case.call(base_url=address)
                seen.add(case.path)
                case.validate_response(answer, checks=CHECKS)

            check()
    assert seen == {
        "/healthz",
        "/metrics",
        "/readyz",
        "/v1/attack",
        "/v1/certify",
        "/v1/explain",
        "/v1/model",
        "/v1/predict",
    }
