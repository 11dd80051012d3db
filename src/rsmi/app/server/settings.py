"""Frozen settings of the server: limits, time and what is switched on."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from rsmi.settings import require


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """What the server takes, how long it takes for it, and what it offers."""

    max_batch: int = 32
    """Texts (windows of long ones) that the model is asked about at once."""
    latency_budget: float = 0.005
    """Seconds that a request waits for others to share a batch with, when the model is free."""
    max_queue: int = 512
    """Texts (windows) waiting; a request that would make it more is refused with 429."""
    max_certificates: int = 32
    """Texts waiting for a certificate; they have a queue of their own."""
    max_requests: int = 256
    """Requests in work, those whose body is still arriving included."""
    max_texts: int = 64
    """Texts of one request."""
    max_tokens: int = 16_384
    """Tokens of one request, all texts together."""
    max_windows: int = 128
    """Windows of one request: what its long texts are cut into."""
    max_body: int = 524_288
    """Bytes of a request's body."""
    max_samples: int = 10_000
    """Draws of one certificate."""
    default_samples: int = 1000
    """Draws of a certificate where the request does not say."""
    timeout: float = 30.0
    """Seconds until a request is given up with 504, and its texts leave the queue."""
    certify_timeout: float = 300.0
    """The same for requests that certify."""
    drain_seconds: float = 0.0
    """Seconds between the signal to stop, when `/readyz` says so, and the end of listening."""
    api_key: str | None = None
    """What clients must send, as `Authorization: Bearer KEY` or `X-API-Key: KEY`; None lets everybody in."""
    attacks: tuple[str, ...] = ("deepwordbug",)
    """Attacks that `/v1/attack` offers; empty switches it off."""
    attack_queries: int = 500
    """Most queries of one live attack."""
    attack_seconds: float = 120.0
    """Longest time of one live attack."""
    playground: bool = True
    """Whether `/` shows the page to try the model."""
    log_texts: bool = False
    """Whether texts may appear in the log."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                require(type(value) is bool, field.name, "a bool", value)
            elif isinstance(field.default, int):
                require(type(value) is int and value >= 1, field.name, "an integer >= 1", value)
            elif isinstance(field.default, float):
                number = isinstance(value, (int, float)) and not isinstance(value, bool)
                require(number and math.isfinite(value) and value >= 0, field.name, "seconds, 0 or more", value)
        require(self.timeout > 0, "timeout", "more than 0 seconds", self.timeout)
        require(self.max_windows <= self.max_queue, "max_windows", f"at most max_queue ({self.max_queue})", "more")
        known = self.default_samples <= self.max_samples
        require(known, "default_samples", f"at most max_samples ({self.max_samples})", self.default_samples)
        if self.api_key is not None:  # not shown in the error: it is a secret
            plain = self.api_key.isascii() and self.api_key.isprintable() and self.api_key.strip() == self.api_key
            require(
                bool(self.api_key) and plain, "api_key", "printable ASCII without spaces around it", "something else"
            )
