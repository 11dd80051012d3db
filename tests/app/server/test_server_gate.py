"""Limits, keys, time, states, counters and logs."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time

import httpx2
import pytest

from keyword_model import keyword_texts
from rsmi.app.server.app import create_app
from rsmi.app.server.logs import LOGGER, JsonLines
from rsmi.app.server.settings import ServeConfig
from rsmi.errors import ConfigError

TEXT = "a good film with a warm story"
SECRET = "a-secret-film-nobody-may-read"


def post(client, **body):
    return client.post("/v1/predict", json=body)


def error(answer):
    return answer.json()["error"]


def test_more_texts_tokens_or_bytes_than_allowed_are_refused(serve):
    with serve(max_texts=2, max_tokens=100, max_body=2000) as client:
        assert post(client, texts=[TEXT] * 2).status_code == 200
        many = post(client, texts=[TEXT] * 3)
        long = post(client, text="good " * 101)
        large = post(client, text="good " * 500)
        chunked = client.post("/v1/predict", content=iter([b"x" * 1500] * 2))
    assert (many.status_code, long.status_code, large.status_code, chunked.status_code) == (422, 422, 413, 413)
    assert "at most 2, got 3" in error(many)["message"]
    assert "at most 100 tokens" in error(long)["message"]
    assert "got 101" in error(long)["message"]
    assert "2000 bytes" in error(large)["message"]


def test_more_windows_than_allowed_are_refused(serve):
    with serve(max_windows=4) as client:
        assert post(client, text="good " * 90).status_code == 200
        assert "4 windows" in error(post(client, text="good " * 200))["message"]


@pytest.mark.parametrize("body", [{}, {"text": TEXT, "texts": [TEXT]}, {"texts": []}, {"text": None}])
def test_either_text_or_texts(serve, body):
    with serve() as client:
        answer = client.post("/v1/predict", json=body)
    assert answer.status_code == 422
    assert error(answer)["type"] == "invalid"


def test_a_full_queue_is_429_with_retry_after_and_what_was_accepted_is_answered(together, held, until):
    async def test(client, service):
        held.on = True
        running = [asyncio.create_task(client.post("/v1/predict", json={"text": TEXT}))]
        await until(lambda: held.calls)
        running += [asyncio.create_task(client.post("/v1/predict", json={"text": TEXT})) for _ in range(4)]
        await until(lambda: service._decisions.waiting == 4)
        refused = await client.post("/v1/predict", json={"text": TEXT})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert error(refused)["type"] == "overloaded"
        held.free.set()
        assert [answer.status_code for answer in await asyncio.gather(*running)] == [200] * 5
        metrics = (await client.get("/metrics")).text
        assert 'rsmi_queue_refused_total{lane="decide"} 1.0' in metrics
        assert 'rsmi_requests_total{route="/v1/predict",status="429"} 1.0' in metrics

    together(test, max_queue=4, max_windows=4, max_batch=1, latency_budget=0.0)


def test_too_many_requests_at_once_are_429_but_probes_are_answered(together, held, until):
    async def test(client, service):
        held.on = True
        running = [asyncio.create_task(client.post("/v1/predict", json={"text": TEXT})) for _ in range(2)]
        await until(lambda: service._decisions.waiting + len(held.calls) == 2)
        refused = await client.post("/v1/predict", json={"text": TEXT})
        assert refused.status_code == 429
        assert refused.headers["retry-after"] == "1"
        assert (await client.get("/healthz")).status_code == 200
        held.free.set()
        assert [answer.status_code for answer in await asyncio.gather(*running)] == [200, 200]

    together(test, max_requests=2, max_batch=1, latency_budget=0.0)


def test_a_request_that_takes_too_long_is_504_and_leaves_the_queue(together, held, until):
    async def test(client, service):
        held.on = True
        first = asyncio.create_task(client.post("/v1/predict", json={"text": TEXT}))
        await until(lambda: held.calls)
        late = await client.post("/v1/predict", json={"text": SECRET})
        assert late.status_code == 504
        assert error(late)["type"] == "timeout"
        assert (await first).status_code == 504
        assert service._decisions.waiting == 0
        held.free.set()
        await asyncio.sleep(0.1)
        assert held.calls == [[TEXT]]

    together(test, timeout=0.3, max_batch=1, latency_budget=0.0)


def test_a_certificate_nobody_waits_for_is_given_up(together, monkeypatch):
    from rsmi.certify.hidden import HiddenSmoothing

    asked, plain = [], HiddenSmoothing.votes

    def votes(self, texts, cells):
        asked.append(time.monotonic())
        time.sleep(0.1)
        return plain(self, texts, cells)

    monkeypatch.setattr(HiddenSmoothing, "votes", votes)

    async def test(client, service):
        body = {"text": TEXT, "estimation_samples": 10_000, "bound": "bonferroni"}
        assert (await client.post("/v1/certify", json=body)).status_code == 504
        await asyncio.sleep(0.4)
        count = len(asked)
        await asyncio.sleep(0.3)
        assert len(asked) == count < 10

    together(test, certify_timeout=0.25)


def test_a_client_that_hangs_up_is_forgotten(classifier, held, until):
    async def main():
        app = create_app(lambda: classifier, ServeConfig(max_batch=1, latency_budget=0.0))
        service = app.state.service
        async with app.router.lifespan_context(app):
            await until(lambda: service.state == "ready")
            held.on = True
            sent = []
            gone = asyncio.Event()
            body = json.dumps({"text": TEXT}).encode()
            messages = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive():
                if messages:
                    return messages.pop()
                await gone.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                sent.append(message)

            scope = {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": "POST",
                "scheme": "http",
                "path": "/v1/predict",
                "raw_path": b"/v1/predict",
                "query_string": b"",
                "root_path": "",
                "headers": [(b"content-type", b"application/json")],
            }
            visits = [asyncio.create_task(app({**scope}, receive, send)) for _ in range(1)]
            await until(lambda: held.calls)
            gone.set()
            await asyncio.gather(*visits)
            assert sent == []
            assert service.metrics.registry.get_sample_value("rsmi_requests_in_work") == 0
            labels = {"route": "/v1/predict", "status": "499"}
            assert service.metrics.registry.get_sample_value("rsmi_requests_total", labels) == 1
            held.free.set()

    asyncio.run(main())


def test_a_body_that_does_not_arrive_is_408(classifier):
    async def main():
        app = create_app(lambda: classifier, ServeConfig(timeout=0.1))

        async def drip():
            yield b'{"text": '
            await asyncio.sleep(5)
            yield b'"x"}'

        async with app.router.lifespan_context(app):
            transport = httpx2.ASGITransport(app)
            async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
                answer = await client.post("/v1/predict", content=drip())
        assert answer.status_code == 408

    asyncio.run(main())


def test_the_key_is_asked_for_everywhere_but_at_probes_and_the_page(serve):
    with serve(api_key="open sesame".replace(" ", "-")) as client:
        for path in ("/healthz", "/readyz", "/", "/openapi.json"):
            assert client.get(path).status_code == 200
        for headers in ({}, {"X-API-Key": "wrong"}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
            answer = client.post("/v1/predict", json={"text": TEXT}, headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/metrics").status_code == client.get("/v1/model").status_code == 401
        assert client.get("/v1/nothing").status_code == 401
        for headers in ({"X-API-Key": "open-sesame"}, {"Authorization": "bearer open-sesame"}):
            assert client.post("/v1/predict", json={"text": TEXT}, headers=headers).status_code == 200
        assert client.get("/openapi.json").json()["security"] == [{"bearer": []}]


def test_keys_are_compared_in_constant_time(serve, monkeypatch):
    import hmac

    compared = []
    plain = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: (compared.append((len(a), len(b))), plain(a, b))[1])
    with serve(api_key="key") as client:
        for guess in ("", "k", "key", "k" * 1000):
            client.get("/v1/model", headers={"X-API-Key": guess})
    assert compared == [(32, 32)] * 4


def test_readyz_is_false_while_loading_and_while_draining(classifier, serve):
    go = threading.Event()

    def load():
        assert go.wait(30)
        return classifier

    with serve(load=load, wait=False) as client:
        try:
            assert client.get("/readyz").json() == {"status": "loading"}
            assert client.get("/readyz").status_code == 503
            assert client.get("/healthz").status_code == 200
            early = post(client, text=TEXT)
            assert early.status_code == 503
            assert early.headers["retry-after"] == "2"
        finally:
            go.set()
        service, end = client.app.state.service, time.monotonic() + 30
        while service.state == "loading" and time.monotonic() < end:
            time.sleep(0.01)
        assert client.get("/readyz").status_code == 200
        assert "rsmi_ready 1.0" in client.get("/metrics").text
        service.drain()
        assert client.get("/readyz").json() == {"status": "draining"}
        assert client.get("/readyz").status_code == 503
        late = post(client, text=TEXT)
        assert late.status_code == 200
        assert late.headers["connection"] == "close"


def test_a_model_that_cannot_be_loaded_is_reported(serve):
    def load():
        raise ConfigError("no such model")

    with serve(load=load) as client:
        assert client.get("/healthz").status_code == 503
        assert client.get("/readyz").json() == {"status": "failed"}
        assert isinstance(client.app.state.service.failure, ConfigError)


def test_counters_follow_the_answers(serve):
    texts, _ = keyword_texts(30, seed=3)
    with serve() as client:
        results = post(client, texts=texts).json()["results"]
        post(client, texts=texts, quality="fast")
        post(client, text="")
        client.get("/nothing/of/the/kind")
        value = client.app.state.service.metrics.registry.get_sample_value
        escalated = sum(own["escalated"] for own in results)
        assert value("rsmi_texts_total", {"quality": "standard"}) == 30
        assert value("rsmi_texts_total", {"quality": "fast"}) == 30
        assert value("rsmi_escalated_total", {"quality": "standard"}) == escalated
        assert value("rsmi_escalated_total", {"quality": "fast"}) == 0
        assert value("rsmi_escalation_rate") == pytest.approx(escalated / 30)
        assert value("rsmi_abstained_total", {"quality": "standard"}) == 0
        assert value("rsmi_under_attack_count") == 60
        assert value("rsmi_under_attack_sum") >= sum(own["under_attack"] for own in results) - 1e-4
        assert value("rsmi_requests_total", {"route": "/v1/predict", "status": "200"}) == 2
        assert value("rsmi_requests_total", {"route": "/v1/predict", "status": "422"}) == 1
        assert value("rsmi_requests_total", {"route": "other", "status": "404"}) == 1
        assert value("rsmi_request_seconds_count", {"route": "/v1/predict"}) == 3
        assert value("rsmi_batch_texts_sum", {"lane": "decide"}) == 60
        assert value("rsmi_queue_texts", {"lane": "decide"}) == 0
        assert value("rsmi_requests_in_work") == 0
        page = client.get("/metrics")
        assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "process_resident_memory_bytes" in page.text
    assert 0 < escalated < 30


def logged(caplog):
    return [json.loads(JsonLines().format(record)) for record in caplog.records if record.name == LOGGER]


def test_the_log_has_facts_and_no_texts(serve, caplog):
    caplog.set_level(logging.INFO, LOGGER)
    with serve() as client:
        answer = client.post("/v1/predict", json={"texts": [TEXT, SECRET]}, headers={"X-Request-ID": "mine-1"})
        client.post("/v1/predict", json={"text": SECRET, "nonsense": SECRET})
        client.post("/v1/predict", content=SECRET)
        client.get(f"/{SECRET}")
        client.post("/v1/certify", json={"text": SECRET, "estimation_samples": 20})
        client.post("/v1/attack", json={"text": SECRET})
    assert answer.headers["x-request-id"] == "mine-1"
    lines = logged(caplog)
    assert SECRET not in json.dumps(lines)
    (line,) = [own for own in lines if own.get("request_id") == "mine-1"]
    assert line["event"] == "request"
    assert (line["route"], line["status"], line["texts"], line["quality"]) == ("/v1/predict", 200, 2, "standard")
    assert {"seconds", "windows", "tokens", "escalated", "abstained", "under_attack", "time", "level"} <= set(line)
    assert [own["status"] for own in lines if own["event"] == "request"] == [200, 422, 422, 404, 200, 200]


def test_the_log_has_texts_if_asked(serve, caplog):
    caplog.set_level(logging.INFO, LOGGER)
    with serve(log_texts=True) as client:
        post(client, text=SECRET)
    assert SECRET in json.dumps(logged(caplog))


def test_an_id_that_could_forge_log_lines_is_replaced(serve):
    with serve() as client:
        for given in ("x" * 65, "two words", 'a"b', ""):
            answer = client.get("/healthz", headers={"X-Request-ID": given})
            assert answer.headers["x-request-id"] != given
            assert len(answer.headers["x-request-id"]) == 16


def test_a_mistake_of_ours_says_nothing_internal(serve, monkeypatch, caplog):
    from rsmi.app.server.model import ServedModel

    caplog.set_level(logging.INFO, LOGGER)
    with serve() as client:

        def explain(self, quick, texts):
            raise RuntimeError(f"/etc/passwd {SECRET}")

        monkeypatch.setattr(ServedModel, "explain", explain)
        answer = client.post("/v1/predict", json={"text": TEXT}, headers={"X-Request-ID": "broken"})
    assert answer.status_code == 500
    assert error(answer) == {
        "type": "internal",
        "message": "internal error; the server's log has it under this request_id",
        "request_id": "broken",
    }
    (line,) = [own for own in logged(caplog) if own["event"] == "failed"]
    assert line["request_id"] == "broken"
    assert line["exception"]["type"] == "RuntimeError"
    assert any("test_server_gate.py" in frame for frame in line["exception"]["stack"])
    assert SECRET not in json.dumps(line)


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/v1/../../pyproject.toml",
        "/static/../model.safetensors",
        "/model.safetensors",
        "/config.json",
        "//etc/passwd",
        "/v1/predict/..%2f..%2fetc%2fpasswd",
        "/playground.html",
        "/docs",
        "/redoc",
        "/%00",
    ],
)
def test_no_file_can_be_read(serve, path):
    with serve() as client:
        answer = client.get(path)
    assert answer.status_code == 404
    assert error(answer)["message"] == "no such path"


def test_another_method_is_405(serve):
    with serve() as client:
        answer = client.get("/v1/predict")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "settings",
    [
        {"max_batch": 0},
        {"max_batch": 2.5},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"latency_budget": -1},
        {"max_windows": 600},
        {"default_samples": 20_000},
        {"api_key": ""},
        {"api_key": " x"},
        {"playground": 1},
    ],
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        ServeConfig(**settings)


def test_a_key_is_not_shown_in_an_error():
    with pytest.raises(ConfigError) as refused:
        ServeConfig(api_key="gehe\u00efm")
    assert "gehe" not in str(refused.value)
