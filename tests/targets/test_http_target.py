"""A model behind an address: what is sent, what is understood, what is tried again and what is refused."""

from __future__ import annotations

import json
import socket
import threading
import time
from email.utils import formatdate

import pytest

from endpoint import endpoint, hub_answer, own_answer
from rsmi.attacks.deepwordbug import DeepWordBug
from rsmi.defense import Target
from rsmi.errors import ConfigError, TargetError
from rsmi.targets import HttpTarget
from rsmi.targets import transport as transport_module

CLASSES = ("neg", "pos")
TEXTS = ["good film", "dull plot", "a story"]
OWN = "/v1/predict"


def test_our_own_server_is_understood_without_settings():
    with endpoint(own_answer, OWN) as asked:
        target = HttpTarget(asked.url, CLASSES)
        assert isinstance(target, Target)
        rows = target.query(TEXTS)
    assert [body for _, body in asked] == [{"texts": TEXTS}]
    assert rows[:, 1].tolist() == pytest.approx([8 / 9, 1 / 9, 0.5])


def test_endpoints_of_pipelines_are_asked_for_all_classes():
    with endpoint(hub_answer) as asked:
        target = HttpTarget(asked.url, CLASSES, rename={"LABEL_0": "neg", "LABEL_1": "pos"})
        assert target.query(TEXTS)[:, 1].tolist() == pytest.approx([8 / 9, 1 / 9, 0.5])
        pairs = target.query([("good film", "the end"), ("the end", "bad plot")])
    assert asked[0][1] == {"inputs": TEXTS, "parameters": {"top_k": 2}}
    assert asked[1][1]["inputs"][0] == {"text": "good film", "text_pair": "the end"}
    assert pairs[:, 1].tolist() == pytest.approx([8 / 9, 1 / 9])


def test_questions_are_cut_to_the_batch_size_and_answers_keep_their_order():
    with endpoint(own_answer, OWN) as asked:
        rows = HttpTarget(asked.url, CLASSES, batch_size=2).query(TEXTS)
    assert [len(body["texts"]) for _, body in asked] == [2, 1]
    assert rows.argmax(1).tolist()[:2] == [1, 0]


def test_a_body_for_one_text_asks_one_by_one():
    with endpoint(lambda body: {"out": {"p": [0.25, 0.75]}, "got": body}) as asked:
        target = HttpTarget(asked.url, CLASSES, body='{"q": "{text}", "lang": "en"}', answer="out.p")
        assert target.query(TEXTS).tolist() == [[0.25, 0.75]] * 3
    assert [body for _, body in asked] == [{"q": text, "lang": "en"} for text in TEXTS]


def test_a_blank_text_is_sent_as_something_visible():
    with endpoint(own_answer, OWN) as asked:
        HttpTarget(asked.url, CLASSES).query(["", " \n", "x"])
        HttpTarget(asked.url, CLASSES, blank="-").query([("", "b")])
    assert asked[0][1] == {"texts": [".", ".", "x"]}
    assert asked[1][1] == {"texts": [["-", "b"]]}


def test_a_key_is_sent_and_kept_out_of_records_and_messages(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "s3cret")
    with endpoint(lambda _body: (401, {}, b"wrong key: s3cret"), "/predict?key=hidden") as asked:
        target = HttpTarget(asked.url, CLASSES, key_variable="SOME_KEY")
        with pytest.raises(TargetError, match=r"got 401: wrong key: \*\*\*; pass the name of an environment") as raised:
            target.query(["a"])
        with pytest.raises(TargetError):
            HttpTarget(asked.url, CLASSES, key_variable="SOME_KEY", key_header="X-API-Key").query(["a"])
    assert asked[0][0]["authorization"] == "Bearer s3cret"
    assert asked[1][0]["x-api-key"] == "s3cret"
    assert "authorization" not in asked[1][0]
    told = str(raised.value) + json.dumps(target.about) + repr(vars(target))
    assert "s3cret" not in told
    assert "hidden" not in str(raised.value) + json.dumps(target.about)
    assert target.name.endswith("/predict?…")


def test_a_remote_model_says_that_it_has_no_fingerprint():
    about = HttpTarget("http://127.0.0.1:1/v1/predict", CLASSES).about
    assert about["name"] == "http://127.0.0.1:1/v1/predict"
    assert "fingerprint" not in about
    assert "no fingerprint" in about["note"]
    assert about["config"]["body"] == '{"texts": ["{text}"]}'


def test_a_busy_service_is_asked_again_when_it_says_so(monkeypatch):
    pauses = []
    monkeypatch.setattr(transport_module.time, "sleep", pauses.append)
    date = formatdate(time.time() + 30, usegmt=True)
    busy = iter([(429, {"Retry-After": "7"}, b""), (503, {"Retry-After": date}, b""), (503, {}, b"")])
    with endpoint(lambda body: next(busy, None) or own_answer(body), OWN) as asked:
        assert HttpTarget(asked.url, CLASSES).query(["good"]).argmax() == 1
    assert len(asked) == 4
    assert pauses[0] == 7
    assert 25 < pauses[1] <= 30
    assert pauses[2] == 4  # twice as long each time, where the service does not say


def test_tries_are_bounded(monkeypatch):
    monkeypatch.setattr(transport_module.time, "sleep", lambda _seconds: None)
    with endpoint(lambda _body: (429, {"Retry-After": "0"}, b"slow down")) as asked:
        with pytest.raises(TargetError, match="got 429 3 times: slow down; try again later, with --resume"):
            HttpTarget(asked.url, CLASSES, retries=2).query(["a"])
        assert len(asked) == 3
    with endpoint(lambda _body: (503, {"Retry-After": "3600"}, b"")) as asked:
        with pytest.raises(TargetError, match="Retry-After: 3600, longer than the 60 s"):
            HttpTarget(asked.url, CLASSES).query(["a"])
        assert len(asked) == 1


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ((500, {}, b"Traceback: boom"), "expected an answer, got 500: Traceback: boom; look into the log"),
        ((404, {}, b"no such page"), "got 404: no such page; check the path"),
        ((422, {}, b""), "got 422: nothing; pass the body that it expects"),
        ((302, {"Location": "http://127.0.0.1:1/x"}, b""), "a redirect to http://127.0.0.1:1/x"),
        (b"<html>hello</html>", "expected JSON, got <html>hello</html>"),
        (b"", "expected JSON, got nothing"),
        (b"[" * 100_000, "expected JSON, got"),
        (b'{"results": [{"probabilities": {"neg": NaN, "pos": 0.5}}]}', r"got \[nan, 0.5\] for text 0"),
        ({"results": [{"probabilities": {"pos": 1.0}}]}, "got none for 'neg'.*the answer was {'results'"),
        ({"results": [{"probabilities": {"neg": 0.9, "pos": 0.9}}]}, "add up to 1; got"),
        ({"error": "model not loaded"}, "got 'error'"),
    ],
)
def test_every_other_answer_is_one_error_that_names_the_address_and_what_came_back(told, message):
    with endpoint(lambda _body: told, OWN) as asked:
        with pytest.raises(TargetError, match=message) as raised:
            HttpTarget(asked.url, CLASSES).query(["a"])
        assert str(raised.value).startswith(asked.url)
        assert len(str(raised.value)) < 700
        assert len(asked) == 1  # none of these is asked again


def test_a_slow_service_is_given_up():
    with endpoint(lambda body: time.sleep(0.5) or own_answer(body), OWN) as asked:
        started = time.monotonic()
        with pytest.raises(TargetError, match=r"expected an answer within 0\.1 s, got none; wait longer \(--timeout\)"):
            HttpTarget(asked.url, CLASSES, timeout=0.1).query(["a"])
        assert time.monotonic() - started < 0.5


def test_an_answer_that_drips_is_given_up_too():
    listener = socket.create_server(("127.0.0.1", 0))

    def drip():
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            try:
                for _ in range(100):
                    connection.sendall(b" ")
                    time.sleep(0.02)
            except OSError:
                pass

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(TargetError, match=r"within 0\.2 s"):
            HttpTarget(f"http://127.0.0.1:{listener.getsockname()[1]}/", CLASSES, timeout=0.2).query(["a"])
    finally:
        thread.join()
        listener.close()


def test_nobody_at_home_is_one_error():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(TargetError, match=f"127.0.0.1:{port}/x: expected an answer, got ConnectionRefusedError.*check"):
        HttpTarget(f"http://127.0.0.1:{port}/x", CLASSES).query(["a"])


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "http://", "http://host:99999/", "http://ho st/", "file:///etc/passwd"]
)
def test_an_address_that_cannot_be_asked_is_refused_at_once(url):
    with pytest.raises(ConfigError, match="expected an address such as"):
        HttpTarget(url, CLASSES)


def test_settings_that_cannot_be_used_are_refused_at_once(monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    for settings, message in (
        ({"key_variable": "SOME_KEY"}, "environment variable SOME_KEY, got none"),
        ({"key_header": "X: y"}, "key_header: expected"),
        ({"timeout": 0.0}, "timeout: expected more than 0"),
        ({"retries": -1}, "retries: expected 0 or more"),
        ({"batch_size": 0}, "batch_size: expected"),
        ({"body": "{}"}, "body: expected"),
    ):
        with pytest.raises(ConfigError, match=message):
            HttpTarget("http://127.0.0.1:1/", CLASSES, **settings)
    with pytest.raises(ConfigError, match="without a password") as raised:
        HttpTarget("http://me:hunter2@host/", CLASSES)
    assert "hunter2" not in str(raised.value)
    monkeypatch.setenv("SOME_KEY", "a\nb")
    with pytest.raises(ConfigError, match="printable ASCII"):
        HttpTarget("http://127.0.0.1:1/", CLASSES, key_variable="SOME_KEY")


def test_an_attack_fools_a_model_behind_an_address():
    with endpoint(own_answer, OWN) as asked:
        target = HttpTarget(asked.url, CLASSES)
        records = dict(DeepWordBug().run(target, ["a good film", "dull"], ["pos", "pos"]))
        assert records[0].outcome == "succeeded"
        assert "good" not in records[0].adversarial
        assert records[1].outcome == "skipped"
        assert sum(len(body["texts"]) for _, body in asked) <= sum(record.queries for record in records.values())
        noisy = HttpTarget(asked.url, CLASSES, randomised=True)
        again = DeepWordBug(fresh_draws=6)(noisy, "a good film", "pos")
        assert (again.fresh_draws, again.fresh_flips) == (6, 6)
