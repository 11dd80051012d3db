"""Live attacks: each query is told, one at a time, within limits, and they end when nobody looks on."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from keyword_model import keyword_texts
from rsmi.errors import MissingResourceError

TEXT = keyword_texts(3, seed=11)[0][1]


def events(answer):
    return [json.loads(line) for line in answer.text.splitlines()]


def test_every_query_is_told_and_the_record_counts_them(serve, classifier):
    with serve() as client:
        answer = client.post("/v1/attack", json={"text": TEXT, "max_queries": 40})
        counted = client.app.state.service.metrics.registry.get_sample_value("rsmi_attack_queries_total")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    told = events(answer)
    assert [told[0]["event"], told[-1]["event"]] == ["start", "end"]
    queries = [event for event in told if event["event"] == "query"]
    record = told[-1]["record"]
    assert told[0]["label"] == record["label"] == classifier.predict([TEXT])[0]
    assert told[0]["max_queries"] == 40
    assert queries[0]["text"] == record["original"] == TEXT
    assert 1 < record["queries"] <= 40
    # a text that is asked about again is counted but not asked
    assert len({own["text"] for own in queries}) == len(queries) <= record["queries"]
    assert [own["number"] for own in queries] == list(range(1, len(queries) + 1))
    assert counted == len(queries)
    assert record["adversarial"] in {own["text"] for own in queries}
    assert all(own["wrong"] == (own["label"] != record["label"]) for own in queries)
    again = [event for event in told if event["event"] == "again"]
    assert len(again) == record["fresh_draws"]
    assert sum(own["label"] != record["label"] for own in again) == record["fresh_flips"]


def test_a_label_that_is_not_the_answer_is_skipped_and_an_unknown_one_refused(serve, classifier):
    other = "neg" if classifier.predict([TEXT])[0] == "pos" else "pos"
    with serve() as client:
        skipped = events(client.post("/v1/attack", json={"text": TEXT, "label": other}))
        unknown = client.post("/v1/attack", json={"text": TEXT, "label": "sideways"})
    assert skipped[-1]["record"]["outcome"] == "skipped"
    assert unknown.status_code == 422


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": " "}, "empty"),
        ({"text": "good " * 100}, "reads at once"),
        ({"text": TEXT, "attack": "gbda"}, "expected one of deepwordbug"),
        ({"text": TEXT, "max_queries": 0}, "max_queries"),
    ],
)
def test_what_cannot_be_attacked_is_refused(serve, body, message):
    with serve() as client:
        answer = client.post("/v1/attack", json=body)
    assert answer.status_code == 422
    assert message in answer.json()["error"]["message"]


def test_the_budget_of_the_server_holds(serve):
    with serve(attack_queries=5) as client:
        told = events(client.post("/v1/attack", json={"text": TEXT, "max_queries": 400}))
    assert told[0]["max_queries"] == 5
    assert sum(event["event"] == "query" for event in told) <= 5


def test_attacks_can_be_switched_off(serve):
    with serve(attacks=()) as client:
        answer = client.post("/v1/attack", json={"text": TEXT})
        assert client.get("/v1/model").json()["attacks"] == []
    assert answer.status_code == 422
    assert "switched off" in answer.json()["error"]["message"]


def test_an_attack_whose_lexicon_is_missing_is_named_when_the_server_starts(serve, monkeypatch):
    import rsmi.app.server.attacking as attacking

    def make(name, **settings):
        raise MissingResourceError("run: rsmi resources fetch wordnet")

    monkeypatch.setattr(attacking, "make_attack", make)
    with serve(attacks=("pwws",)) as client:
        assert "fetch wordnet" in str(client.app.state.service.failure)


class Slow:
    """Makes each query of an attack take a while."""

    def __init__(self, monkeypatch, classifier, seconds):
        self.count, plain = 0, type(classifier).query

        def query(own, texts, draw=0):
            self.count += 1
            time.sleep(seconds)
            return plain(own, texts, draw)

        monkeypatch.setattr(type(classifier), "query", query)


def test_one_attack_at_a_time_and_predictions_go_on_meanwhile(together, monkeypatch, classifier, until):
    slow = Slow(monkeypatch, classifier, 0.1)

    async def test(client, service):
        running = asyncio.create_task(client.post("/v1/attack", json={"text": TEXT}))
        await until(lambda: slow.count)
        refused = await client.post("/v1/attack", json={"text": TEXT})
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
        assert (await client.post("/v1/predict", json={"text": TEXT})).status_code == 200
        assert not running.done()
        assert events(await running)[-1]["event"] == "end"
        assert (await client.post("/v1/attack", json={"text": TEXT})).status_code == 200

    together(test)


def test_it_ends_when_nobody_listens_any_more(together, monkeypatch, classifier, until):
    slow = Slow(monkeypatch, classifier, 0.05)

    async def test(client, service):
        model, desk = service.model, service.desk
        told = desk.begin(model, desk.attack("deepwordbug", None), TEXT, None)
        assert (await anext(told))["event"] == "start"
        await anext(told)
        await told.aclose()
        await until(lambda: not desk._busy)
        count = slow.count
        await asyncio.sleep(0.2)
        assert slow.count == count < 5

    together(test)


def test_it_ends_when_it_takes_too_long_or_the_server_stops(together, monkeypatch, classifier):
    Slow(monkeypatch, classifier, 0.1)

    async def test(client, service):
        told = events(await client.post("/v1/attack", json={"text": TEXT}))
        assert told[-1] == {"event": "stopped", "reason": "it took too long"}
        service.drain()
        late = await client.post("/v1/attack", json={"text": TEXT})
        assert late.status_code == 503

    together(test, attack_seconds=0.25)


def test_a_mistake_in_an_attack_is_told_without_details(serve, monkeypatch, classifier):
    def query(own, texts, draw=0):
        raise RuntimeError("/etc/passwd")

    with serve() as client:
        monkeypatch.setattr(type(classifier), "query", query)
        told = events(client.post("/v1/attack", json={"text": TEXT}))
    assert told[-1]["event"] == "error"
    assert "passwd" not in json.dumps(told)
