"""Answers of the server are those of the library, under the names of its records."""

from __future__ import annotations

import asyncio

import pytest

from keyword_model import keyword_classifier, keyword_texts
from rsmi.app.server import schemas
from rsmi.config import RsmiConfig
from tiny import save_tiny

TEXTS, _ = keyword_texts(12, seed=5)
LONG = " ".join(keyword_texts(12, seed=6)[0])  # 120 words for a model that reads 30 of them


def test_one_text_and_several_get_the_answers_of_the_library(serve, classifier):
    expected = classifier.explain(TEXTS)
    with serve() as client:
        one = client.post("/v1/predict", json={"text": TEXTS[0]})
        several = client.post("/v1/predict", json={"texts": TEXTS})
    assert one.status_code == several.status_code == 200
    assert one.json()["results"] == several.json()["results"][:1]
    assert several.json()["model"] == "keywords"
    assert several.json()["quality"] == "standard"
    for got, own in zip(several.json()["results"], expected, strict=True):
        assert got["probabilities"] == own.probabilities
        assert [got[name] for name in ("label", "escalated", "abstained", "truncated", "copies")] == [
            own.label,
            own.escalated,
            own.abstained,
            own.truncated,
            own.copies,
        ]
        assert (got["windows"], got["certificate"], got["certified"]) == (None, None, None)
        assert 0 <= got["under_attack"] <= 1
    schemas.PredictResponse.model_validate_json(several.content, strict=True)


def test_an_explanation_has_every_field_of_the_record(serve, classifier):
    (expected,) = classifier.explain(TEXTS[:1])
    with serve() as client:
        answer = client.post("/v1/explain", json={"text": TEXTS[0]})
    schemas.ExplainResponse.model_validate_json(answer.content)
    (got,) = answer.json()["results"]
    values = expected.to_dict()
    assert set(values) <= set(got)
    for name in ("text", "label", "probabilities", "first_votes", "second_votes", "masks_wanted", "copies"):
        assert got[name] == values[name], name
    assert got["masked"] == list(expected.masked)
    assert got["candidates"] == list(expected.candidates)
    assert [token["text"] for token in got["tokens"]] == [token.text for token in expected.tokens]
    assert [token["saliency"] for token in got["tokens"]] == [token.saliency for token in expected.tokens]


def test_pairs_are_answered(serve, classifier):
    pairs = [("good story", "the end"), ("bad plot", "the end")]
    with serve() as client:
        answer = client.post("/v1/explain", json={"texts": [list(pair) for pair in pairs]})
        mixed = client.post("/v1/predict", json={"texts": ["good", ["good", "bad"]]})
    assert [own["label"] for own in answer.json()["results"]] == classifier.predict(pairs).tolist()
    assert answer.json()["results"][0]["text"] == ["good story", "the end"]
    assert mixed.status_code == 422
    assert "only texts or only pairs" in mixed.json()["error"]["message"]


def test_the_fast_quality_takes_three_copies_no_gradient_and_no_second_step(serve):
    with serve() as client:
        fast = client.post("/v1/explain", json={"texts": TEXTS, "quality": "fast"}).json()
        usual = client.post("/v1/explain", json={"texts": TEXTS}).json()
    assert fast["quality"] == "fast"
    assert [own["copies"] for own in fast["results"]] == [3] * len(TEXTS)
    assert not any(own["escalated"] or own["masked"] for own in fast["results"])
    assert all(own["copies"] >= 5 for own in usual["results"])
    assert any(own["masked"] for own in usual["results"])


def test_the_certified_quality_adds_a_certificate_and_says_whether_it_is_for_the_label(serve, classifier):
    with serve(default_samples=50) as client:
        answer = client.post("/v1/predict", json={"texts": TEXTS[:4], "quality": "certified"})
    schemas.PredictResponse.model_validate_json(answer.content)
    expected = classifier.certify(TEXTS[:4], estimation_samples=50)
    plain = classifier.predict(TEXTS[:4])
    for got, own, label in zip(answer.json()["results"], expected, plain, strict=True):
        assert got["label"] == label
        assert got["certificate"]["radius"] == own.radius
        assert got["certificate"]["label"] == own.label
        assert got["certified"] == (own.label == label)


def test_certificates_are_those_of_the_library(serve, classifier):
    wanted = {"estimation_samples": 60, "selection_samples": 20, "failure_prob": 0.01}
    expected = classifier.certify(TEXTS[:3], **wanted)
    with serve() as client:
        answer = client.post("/v1/certify", json={"texts": TEXTS[:3], **wanted})
    assert answer.status_code == 200
    schemas.CertifyResponse.model_validate_json(answer.content)
    for got, own in zip(answer.json()["results"], expected, strict=True):
        values = own.to_dict()
        assert {name: got[name] for name in values} == values
        assert got["abstained"] == own.abstained
        assert got["windows"] is None
    assert any(not own.abstained for own in expected)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"kind": "l0-mask"}, "word_mask_rate"),
        ({"bound": "sequential"}, "expected a radius"),
        ({"estimation_samples": 10_001}, "at most 10000"),
        ({"selection_samples": 10_001}, "at most 10000"),
    ],
)
def test_what_cannot_be_certified_is_refused_with_the_reason(serve, more, message):
    with serve() as client:
        answer = client.post("/v1/certify", json={"text": TEXTS[0], **more})
    assert answer.status_code == 422
    assert message in answer.json()["error"]["message"]


def test_more_texts_than_can_ever_be_queued_are_not_told_to_come_again(serve):
    with serve(max_certificates=2, default_samples=10) as client:
        answer = client.post("/v1/certify", json={"texts": TEXTS[:3]})
        assert client.post("/v1/certify", json={"texts": [*TEXTS[:2], LONG]}).status_code == 200
    assert answer.status_code == 422
    assert "at most 2 texts to certify, got 3" in answer.json()["error"]["message"]


def test_a_model_without_a_certificate_says_so(serve):
    with serve(load=lambda: keyword_classifier("plain")) as client:
        offer = client.get("/v1/model").json()
        answer = client.post("/v1/predict", json={"text": TEXTS[0], "quality": "certified"})
        assert client.post("/v1/predict", json={"text": TEXTS[0]}).status_code == 200
    assert offer["certificate"] is None
    assert offer["qualities"] == ["fast", "standard"]
    assert answer.status_code == 422
    assert "averaged logits" in answer.json()["error"]["message"]


def test_a_long_text_is_read_in_windows_and_says_so(serve, classifier):
    with serve() as client:
        long = client.post("/v1/explain", json={"text": LONG})
        certificate = client.post("/v1/certify", json={"text": LONG, "estimation_samples": 20}).json()["results"][0]
        certified = client.post("/v1/predict", json={"texts": [LONG, TEXTS[0]], "quality": "certified"})
        assert client.get("/metrics").text.count("rsmi_windowed_total 2.0") == 1
    schemas.ExplainResponse.model_validate_json(long.content)
    (got,) = long.json()["results"]
    told = got["windows"]
    parts = [LONG[start:end] for own in told["windows"] for start, end in own["spans"]]
    assert not got["truncated"]
    assert (told["tokens"], told["max_tokens"], told["count"]) == (120, 32, len(parts))
    assert all(len(part.split()) <= 30 for part in parts)
    own = classifier.explain(parts)
    mean = sum(each.probabilities["pos"] for each in own) / len(own)
    assert got["probabilities"]["pos"] == pytest.approx(mean)
    assert got["label"] == max(got["probabilities"], key=got["probabilities"].get)
    sure = [each.probabilities[got["label"]] for each in own]
    assert told["decisive"] == sure.index(max(sure))
    assert "mean" in told["rule"]
    assert all(LONG[token["start"] : token["end"]] == token["text"] for token in got["tokens"] if token["start"] >= 0)
    assert certificate["abstained"]
    assert (certificate["samples"], certificate["radius"], certificate["windows"]["count"]) == (0, 0.0, len(parts))
    first, second = certified.json()["results"]
    assert first["certified"] is False
    assert second["certificate"]["samples"] > 0


def test_concurrent_requests_share_batches_and_get_the_answers_they_get_alone(together, held, classifier, until):
    texts, _ = keyword_texts(24, seed=9)
    alone = [own.to_dict() for own in classifier.explain(texts)]

    async def test(client, service):
        held.on = True
        requests = [asyncio.create_task(client.post("/v1/explain", json={"text": text})) for text in texts]
        await until(lambda: service._decisions.waiting + sum(map(len, held.calls)) == 24)
        held.free.set()
        answers = [request.json()["results"][0] for request in await asyncio.gather(*requests)]
        for got, own in zip(answers, alone, strict=True):
            for name in ("label", "probabilities", "first_votes", "second_votes", "copies"):
                assert got[name] == own[name]
        assert sum(map(len, held.calls)) == 24
        assert len(held.calls) <= 3

    together(test, max_batch=16, latency_budget=0.01)


def test_without_batching_every_text_is_a_call_of_its_own(together, held):
    async def test(client, service):
        held.on = True
        held.free.set()
        await asyncio.gather(*(client.post("/v1/predict", json={"text": text}) for text in TEXTS))
        assert [len(call) for call in held.calls] == [1] * len(TEXTS)

    together(test, max_batch=1)


def test_fresh_noise_on_every_request_without_a_seed(serve):
    model = keyword_classifier("rsmi", noise_std=1.0)
    model.seed = None
    with serve(load=lambda: model) as client:
        votes = [client.post("/v1/explain", json={"text": "good bad film"}).json() for _ in range(20)]
    assert len({str(own["results"][0]["tokens"]) for own in votes}) > 10


def test_the_offer_names_classes_limits_and_attacks_but_no_path(serve):
    with serve() as client:
        offer = client.get("/v1/model")
    schemas.ModelResponse.model_validate_json(offer.content)
    values = offer.json()
    assert values["classes"] == ["neg", "pos"]
    assert values["max_tokens"] == 32
    assert values["attacks"] == ["deepwordbug"]
    assert values["certificate"] == "l2-hidden"
    assert "/" not in offer.text


def test_labels_that_are_numbers_keep_their_type(serve, tmp_path):
    from rsmi import RsmiClassifier

    base = save_tiny("bert", tmp_path / "base", num_layers=2, dropout=0.0)
    model = RsmiClassifier.from_pretrained(base, RsmiConfig(noise_layers=2, max_length=32), classes=[0, 1], seed=0)
    with serve(load=lambda: model) as client:
        answer = client.post("/v1/explain", json={"text": "a good film"})
        schemas.ExplainResponse.model_validate_json(answer.content)
        (got,) = answer.json()["results"]
        assert type(got["label"]) is int
        assert set(got["probabilities"]) == {"0", "1"}
        certificate = client.post("/v1/certify", json={"text": "a good film", "estimation_samples": 20}).json()
        assert [type(label) for label, _ in certificate["results"][0]["counts"]] == [int, int]


def test_the_openapi_document_has_examples_that_are_answered(serve):
    with serve() as client:
        document = client.get("/openapi.json").json()
        for path, name in (
            ("/v1/predict", "TextsRequest"),
            ("/v1/explain", "TextsRequest"),
            ("/v1/certify", "CertifyRequest"),
            ("/v1/attack", "AttackRequest"),
        ):
            schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
            assert schema["$ref"].endswith(f"/{name}")
            for example in document["components"]["schemas"][name]["examples"]:
                assert client.post(path, json=example).status_code == 200, example
    assert {"401", "413", "422", "429", "503", "504"} <= set(document["paths"]["/v1/predict"]["post"]["responses"])
