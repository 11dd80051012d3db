"""The application -> a process that listens, and stops without losing what it has accepted."""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from rsmi.app.server.app import create_app
from rsmi.app.server.logs import LOGGER, logging_to_stderr
from rsmi.app.server.service import Service
from rsmi.app.server.settings import ServeConfig
from rsmi.classifier import RsmiClassifier
from rsmi.errors import ConfigError

_BACKLOG = 512
_SPARE = 5.0  # seconds beyond the longest request until the last ones are cut off

_log = logging.getLogger(LOGGER)


class _Server(uvicorn.Server):
    """Uvicorn that goes on listening for a while after the signal, and ends with 0 once all is answered."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service
        self.signals = 0
        self.exit_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal: inside of a handler nothing may be locked. A second Ctrl+C ends at once."""
        self.signals += 1
        if self.signals > 1:
            self.should_exit = True
            self.force_exit = sig == signal.SIGINT

    async def on_tick(self, counter: int) -> bool:
        """Begin to drain after a signal; stop listening when the time has come."""
        if self.signals and self.exit_at is None:
            self.service.drain()
            self.exit_at = time.monotonic() + self.service.settings.drain_seconds
        if self.exit_at is not None and time.monotonic() >= self.exit_at:
            self.should_exit = True
        return await super().on_tick(counter)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one.

    Raises:
        ConfigError: If the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        opened = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"expected a free address to listen at, got {host} port {port} ({error}); choose another --host or --port"
        ) from error
    # Connections inherit it. asyncio sets it only on sockets that name their protocol, which this one does not; without
    # it every answer waits 40 ms for the client to acknowledge its headers.
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def run_server(load: Callable[[], RsmiClassifier], settings: ServeConfig, *, host: str, port: int, name: str) -> None:
    """Serve until a signal comes, then answer what was accepted and return.

    Args:
        load: Returns the classifier.
        settings: Of the server.
        host: Address to listen at.
        port: 0 takes a free one, which the log names.
        name: Of the model, as answers show it.

    Raises:
        Exception: What `load` raised, after the server has stopped.
    """
    with listen(host, port) as opened, logging_to_stderr(settings.log_texts):
        running: list[_Server] = []

        def failed() -> None:
            running[0].should_exit = True

        app = create_app(load, settings, name=name, failed=failed)
        longest = max(settings.timeout, settings.certify_timeout)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=int(longest + _SPARE),
        )
        service: Service = app.state.service
        running.append(_Server(config, service))
        _log.info("listening", extra={"facts": {"host": host, "port": opened.getsockname()[1]}})
        running[0].run(sockets=[opened])
        gate = app.state.gate
        counts = {} if gate is None else {"accepted": gate.accepted, "answered": gate.answered}
        _log.info("stopped", extra={"facts": counts})
        if service.failure is not None:
            raise service.failure
