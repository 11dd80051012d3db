"""A small trained classifier behind the server, and ways to ask it."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager, contextmanager

import httpx2
import pytest
import uvicorn
from starlette.testclient import TestClient

from keyword_model import keyword_classifier
from rsmi.app.server.app import create_app
from rsmi.app.server.model import ServedModel
from rsmi.app.server.process import listen
from rsmi.app.server.settings import ServeConfig


@pytest.fixture(scope="session")
def classifier():
    """A trained model of ten-word texts with noise and masks, and a seed: do not change it."""
    return keyword_classifier("rsmi", noise_std=0.1)


def _until_ready(state):
    end = time.monotonic() + 60
    while state() == "loading":
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(scope="session")
def until():
    """(condition): wait, in an async test, until it holds."""

    async def holds(condition):
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end
            await asyncio.sleep(0.002)

    return holds


@pytest.fixture
def serve(classifier):
    """(**settings) -> a context with a client of a server that is ready; `client.app.state.service` is behind it."""

    @contextmanager
    def opened(load=lambda: classifier, wait=True, **settings):
        app = create_app(load, ServeConfig(**settings), name="keywords")
        with TestClient(app) as client:
            if wait:
                _until_ready(lambda: app.state.service.state)
            yield client

    return opened


@pytest.fixture
def together(classifier):
    """(test, **settings): run an async test with a client that can ask several things at once."""

    @asynccontextmanager
    async def opened(settings):
        app = create_app(lambda: classifier, ServeConfig(**settings), name="keywords")
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test", timeout=60) as client,
        ):
            while app.state.service.state == "loading":
                await asyncio.sleep(0.005)
            yield client, app.state.service

    def run(test, **settings):
        async def main():
            async with opened(settings) as (client, service):
                await test(client, service)

        asyncio.run(main())

    return run


@pytest.fixture(scope="module")
def live(classifier):
    """(**settings) -> a context with the address of a server on this machine, ready."""

    @contextmanager
    def opened(**settings):
        app = create_app(lambda: classifier, ServeConfig(**settings), name="keywords")
        config = uvicorn.Config(app, host="127.0.0.1", http="h11", ws="none", log_config=None, access_log=False)
        server, opened = uvicorn.Server(config), listen("127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]})
        thread.start()
        try:
            _until_ready(lambda: app.state.service.state)
            yield f"http://127.0.0.1:{opened.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)

    return opened


@pytest.fixture
def held(monkeypatch):
    """Hold up the model: `held.free.set()` lets it go on; `held.calls` are the batches it was asked about."""

    class Held:
        def __init__(self):
            self.free, self.calls, self.on = threading.Event(), [], False

    state, plain = Held(), ServedModel.explain

    def explain(self, quick, texts):
        if state.on:
            state.calls.append(list(texts))
            assert state.free.wait(30)
        return plain(self, quick, texts)

    monkeypatch.setattr(ServedModel, "explain", explain)
    yield state
    state.free.set()
