"""JSON to an address and JSON back: a bounded time, size and number of tries, and one clear error."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from http.client import HTTPException
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from rsmi.errors import ConfigError, TargetError
from rsmi.targets.base import shown

_BUSY: Final = (429, 503)
_LONGEST_PAUSE: Final = 60.0  # seconds between two tries
_FIRST_PAUSE: Final = 1.0
_MOST_BYTES: Final = 2**26
_WAYS_OUT: Final = {
    401: "pass the name of an environment variable that holds the API key (--key-variable)",
    403: "pass the name of an environment variable that holds the API key (--key-variable)",
    404: "check the path of the address; rsmi serve answers at /v1/predict",
    405: "check the path of the address; rsmi serve answers at /v1/predict",
    400: "pass the body that it expects (--body)",
    413: "ask about fewer texts at a time (--batch-size)",
    415: "pass the body that it expects (--body)",
    422: "pass the body that it expects (--body)",
    429: "try again later, with --resume",
    503: "try again later, with --resume",
}


@dataclass(frozen=True)
class Endpoint:
    """An address that takes JSON by POST.

    Redirects are not followed: the key would go wherever they lead.
    """

    url: str
    timeout: float = 30.0
    """Seconds until a question is given up."""
    retries: int = 5
    """How often a question is asked again that was answered with 429 or 503."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: str = field(default="", repr=False)
    """Never shown in a message."""

    def __post_init__(self) -> None:
        check_url(self.url)
        if not self.timeout > 0:
            raise ConfigError(f"timeout: expected more than 0 seconds, got {self.timeout}")
        if self.retries < 0:
            raise ConfigError(f"retries: expected 0 or more, got {self.retries}")

    @property
    def name(self) -> str:
        """The address without what may be secret in it: all that follows `?`."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{parts.path}{'?…' if parts.query else ''}"

    @property
    def path(self) -> str:
        """The path of the address."""
        return urlsplit(self.url).path

    def ask(self, body: Any) -> Any:
        """Send a body and return the answer.

        Raises:
            TargetError: If there is none in time, or one that is not JSON.
        """
        data = json.dumps(body).encode()
        for attempt in range(self.retries + 1):
            status, headers, raw = self._exchanged(data)
            if 200 <= status < 300:
                return self._parsed(raw)
            if status not in _BUSY or attempt == self.retries:
                break
            pause = self._pause(headers.get("retry-after"), attempt, status)
            time.sleep(pause)
        tried = f" {self.retries + 1} times" if status in _BUSY else ""
        where = f", a redirect to {shown(headers['location'])}" if "location" in headers else ""
        way_out = "pass that address" if where else _WAYS_OUT.get(status, "look into the log of that service")
        raise TargetError(f"{self.name}: expected an answer, got {status}{tried}{where}: {self.seen(raw)}; {way_out}")

    def seen(self, raw: bytes) -> str:
        """Return what came back as a message shows it."""
        text = raw.decode("utf-8", "replace")
        return shown(text.replace(self.secret, "***") if self.secret else text) or "nothing"

    def _exchanged(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        kind = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "rsmi"}
        request = Request(self.url, data, {**kind, **self.headers}, method="POST")
        end = time.monotonic() + self.timeout
        parts: list[bytes] = []
        try:
            with self._opener.open(request, timeout=self.timeout) as response:
                while part := response.read1(2**16):
                    parts.append(part)
                    if sum(map(len, parts)) > _MOST_BYTES:
                        raise TargetError(f"{self.name}: expected an answer of at most {_MOST_BYTES} bytes, got more")
                    if time.monotonic() > end:
                        raise TimeoutError
                names = {name.lower(): value for name, value in response.headers.items()}
                return int(response.status), names, b"".join(parts)
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            if isinstance(reason, TimeoutError):
                raise TargetError(
                    f"{self.name}: expected an answer within {self.timeout:g} s, got none; wait longer (--timeout) or "
                    "ask about fewer texts at a time (--batch-size)"
                ) from error
            raise TargetError(
                f"{self.name}: expected an answer, got {type(reason).__name__}: {shown(str(reason))}; check the "
                "address, and that the service runs"
            ) from error

    @cached_property
    def _opener(self) -> OpenerDirector:
        """Knows HTTP and proxies and nothing else; every status is an answer, and none is followed."""
        opener = OpenerDirector()
        for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
            opener.add_handler(handler)
        return opener

    def _parsed(self, raw: bytes) -> Any:
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise TargetError(f"{self.name}: expected JSON, got {self.seen(raw)} ({type(error).__name__})") from error

    def _pause(self, wanted: str | None, attempt: int, status: int) -> float:
        """Return the seconds to wait before the next try: as many as the service asks for, within reason."""
        pause = _seconds(wanted)
        if pause is None:
            return min(_FIRST_PAUSE * 2.0**attempt, _LONGEST_PAUSE)
        if pause > _LONGEST_PAUSE:
            raise TargetError(
                f"{self.name}: expected an answer, got {status} and Retry-After: {shown(str(wanted))}, longer than the "
                f"{_LONGEST_PAUSE:g} s that are waited for; try again later, with --resume"
            )
        return pause


def check_url(url: str) -> None:
    """Refuse an address that cannot be asked, or that holds a password."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if "@" in parts.netloc:
        raise ConfigError(
            f"expected an address without a password, since records keep it; got one for {parts.hostname}; pass a key "
            "by an environment variable (--key-variable)"
        )
    plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in ("http", "https") or not parts.hostname or not _port_fits(url) or not plain:
        raise ConfigError(f"expected an address such as https://host/path, got {url!r}")


def _port_fits(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _seconds(wanted: str | None) -> float | None:
    """Read Retry-After: seconds or a date."""
    if wanted is None:
        return None
    if wanted.strip().isdecimal():
        return float(wanted)
    try:
        return max(0.0, parsedate_to_datetime(wanted).timestamp() - time.time())
    except ValueError:
        return None
