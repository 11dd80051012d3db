"""Log records -> one line of JSON each, without the texts of users."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

LOGGER = "rsmi.server"
_LEVELS = {LOGGER: logging.INFO, "uvicorn": logging.WARNING, "uvicorn.error": logging.WARNING}


class JsonLines(logging.Formatter):
    """Writes time, level, event and facts.

    Args:
        texts: Whether messages of exceptions, which may quote a text, are written, too.
    """

    def __init__(self, texts: bool = False) -> None:
        super().__init__()
        self.texts = texts

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        moment = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= getattr(record, "facts", {})
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = describe(record.exc_info[1], self.texts)
        return json.dumps(line, default=str)


def describe(error: BaseException, texts: bool) -> dict[str, Any]:
    """Return the type of an exception and where it came from; its message only where texts may be seen."""
    frames = traceback.extract_tb(error.__traceback__)
    about: dict[str, Any] = {
        "type": type(error).__name__,
        "stack": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    return {**about, "message": str(error)} if texts else about


@contextmanager
def logging_to_stderr(texts: bool) -> Iterator[None]:
    """Send what the server and uvicorn have to say to stderr, as lines of JSON, while the block runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines(texts))
    loggers = [(logging.getLogger(name), level) for name, level in _LEVELS.items()]
    before = [(logger, logger.handlers, logger.propagate, logger.level) for logger, _ in loggers]
    for logger, level in loggers:
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, handlers, propagate, old in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(old)
