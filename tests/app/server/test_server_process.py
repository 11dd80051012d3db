"""`rsmi serve` in a process of its own: it answers, stops when told, and loses nothing it has accepted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx2
import pytest

from keyword_model import keyword_classifier, keyword_texts
from rsmi.app.server.process import listen
from rsmi.errors import ConfigError

TEXTS, _ = keyword_texts(50, seed=21)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "keywords"
    keyword_classifier("rsmi", noise_std=0.1).save_pretrained(path)
    return path


class Served:
    """A server, what it logs, and its address."""

    def __init__(self, words):
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "rsmi", "serve", *map(str, words), "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.lines, self.other = [], []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.other.append(line)

    def event(self, name, seconds=90):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in list(self.lines):
                if line["event"] == name:
                    return line
            assert self.process.poll() is None, (self.lines, self.other)
            time.sleep(0.01)
        raise TimeoutError(name)

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        code = self.process.wait(60)
        self._reader.join(10)
        return code


@contextmanager
def served(*words):
    server = Served(words)
    try:
        server.address = f"http://127.0.0.1:{server.event('listening')['port']}"
        server.event("ready")
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait(10)
        server._reader.join(10)
        server.process.stdout.close()
        server.process.stderr.close()


class Load(threading.Thread):
    """A client that asks until the server is gone; counts what it got."""

    def __init__(self, address):
        super().__init__()
        self.address, self.answers, self.broken = address, [], []

    def run(self):
        with httpx2.Client(base_url=self.address, timeout=30) as client:
            for number in range(100_000):
                try:
                    answer = client.post("/v1/predict", json={"text": TEXTS[number % len(TEXTS)]})
                    self.answers.append((answer.status_code, answer.json()["results"][0]["label"]))
                except httpx2.TransportError as error:
                    self.broken.append(error)
                    return


@pytest.mark.slow
def test_sigterm_under_load_loses_no_accepted_request(folder):
    with served(folder, "--seed", "0", "--drain", "0.3") as server:
        clients = [Load(server.address) for _ in range(8)]
        for client in clients:
            client.start()
        while sum(len(client.answers) for client in clients) < 40:
            time.sleep(0.01)
        code = server.stop()
        for client in clients:
            client.join(30)
        assert code == 0, server.other
        stopped = server.event("stopped")
        got = sum(len(client.answers) for client in clients)
        logged = [line for line in server.lines if line["event"] == "request" and line["route"] == "/v1/predict"]
        assert stopped["accepted"] == stopped["answered"] == got == len(logged)
        assert {status for client in clients for status, _ in client.answers} == {200}
        assert {line["status"] for line in logged} == {200}
        assert server.other == []


@pytest.mark.slow
def test_a_second_signal_and_ctrl_c_end_it_too(folder):
    with served(folder, "--drain", "30") as server:
        server.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + 10
        while httpx2.get(f"{server.address}/readyz").status_code == 200:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert httpx2.post(f"{server.address}/v1/predict", json={"text": TEXTS[0]}).status_code == 200
        assert server.stop(signal.SIGINT) == 0


@pytest.mark.slow
def test_the_key_comes_from_a_file(folder, tmp_path):
    key = tmp_path / "key"
    key.write_text("open-sesame\n")
    with served(folder, "--api-key-file", key, "--no-attack", "--no-playground") as server:
        assert httpx2.get(f"{server.address}/v1/model").status_code == 401
        headers = {"Authorization": "Bearer open-sesame"}
        offer = httpx2.get(f"{server.address}/v1/model", headers=headers).json()
        assert (offer["name"], offer["attacks"]) == ("keywords", [])
        assert httpx2.get(f"{server.address}/").status_code == 404
        assert "open-sesame" not in json.dumps(server.lines)
        assert server.stop() == 0


def test_a_port_in_use_is_one_sentence():
    with listen("127.0.0.1", 0) as taken, pytest.raises(ConfigError, match="choose another --host or --port"):
        listen("127.0.0.1", taken.getsockname()[1])


def test_answers_do_not_wait_for_acknowledgements():
    with listen("127.0.0.1", 0) as opened, socket.create_connection(opened.getsockname()):
        connection, _ = opened.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_it_listens_on_ipv6_too():
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    try:
        with listen("::1", 0) as opened:
            assert opened.family == socket.AF_INET6
    except ConfigError:
        pytest.skip("no IPv6 here")


def test_a_model_that_is_not_there_ends_the_command_with_a_sentence(run, tmp_path):
    code, _, err = run("serve", tmp_path / "nothing", "--port", "0")
    assert code == 1
    assert "rsmi: " in err
    assert "Traceback" not in err


def test_a_missing_package_is_one_sentence_naming_the_extra(run, monkeypatch):
    import rsmi.app.serve as command

    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "fastapi" else object())
    code, _, err = run("serve", "model")
    assert code == 1
    assert err == "rsmi: rsmi serve: expected fastapi, got none; pip install 'rsmi[serve]'\n"


def test_a_key_file_that_cannot_be_read_is_one_sentence(run, tmp_path):
    code, _, err = run("serve", "model", "--api-key-file", tmp_path / "none")
    assert code == 1
    assert "--api-key-file: expected a text file with a key" in err
