"""Texts of a request -> windows -> batches -> decisions and certificates; from loading the model to draining."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from rsmi.app.server.attacking import AttackDesk
from rsmi.app.server.batching import Batcher
from rsmi.app.server.failures import NotReady, Refused
from rsmi.app.server.logs import LOGGER
from rsmi.app.server.metrics import Metrics
from rsmi.app.server.model import ServedModel
from rsmi.app.server.quality import Quality
from rsmi.app.server.settings import ServeConfig
from rsmi.certify import Certificate, CertifyConfig
from rsmi.classifier import RsmiClassifier
from rsmi.errors import ConfigError, InputError, NotCertifiable
from rsmi.method.inputs import as_texts
from rsmi.method.monitoring import under_attack
from rsmi.method.windows import Cut, merge
from rsmi.records import Prediction, TextInput

State = Literal["loading", "ready", "draining", "failed"]
_WARM_UP = "A few words."
_INLINE = 10_000  # characters that are tokenized at once rather than handed to a thread

_One = TypeVar("_One")
_Other = TypeVar("_Other")
_log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision about a text, and how it was reached."""

    cut: Cut
    prediction: Prediction
    parts: tuple[Prediction, ...]
    """Of its windows."""
    under_attack: float
    certificate: Certificate | None = None


class Service:
    """One model and its queues.

    Args:
        load: Returns the classifier; called in a thread when the server starts.
        settings: Of the server.
        metrics: Counts what happens.
    """

    def __init__(self, load: Callable[[], RsmiClassifier], settings: ServeConfig, metrics: Metrics) -> None:
        self.settings, self.metrics = settings, metrics
        self.state: State = "loading"
        self.failure: Exception | None = None
        self.desk = AttackDesk(settings, metrics)
        self._load = load
        self._model: ServedModel | None = None
        self._loading: asyncio.Task[None] | None = None

    async def start(self, failed: Callable[[], None] = lambda: None) -> None:
        """Open the queues and begin to load the model; `failed` is called if it cannot be loaded."""
        self._decisions: Batcher[tuple[bool, bool], TextInput, Prediction] = Batcher(
            lambda key, texts, _: self.model.explain(key[0], texts),
            max_batch=self.settings.max_batch,
            latency_budget=self.settings.latency_budget,
            max_queue=self.settings.max_queue,
            observer=self.metrics.lane("decide"),
            name="rsmi-decide",
        )
        self._certificates: Batcher[tuple[CertifyConfig, bool], TextInput, Certificate] = Batcher(
            lambda key, texts, wanted: self.model.certify(key[0], texts, wanted),
            max_batch=1,  # hundreds of copies of one text fill the model's batches
            latency_budget=0.0,
            max_queue=self.settings.max_certificates,
            observer=self.metrics.lane("certify"),
            name="rsmi-certify",
        )
        self._decisions.start()
        self._certificates.start()
        self._loading = asyncio.create_task(self._open(failed))

    async def _open(self, failed: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="rsmi-load") as thread:
            try:
                self._model = await loop.run_in_executor(thread, self._opened)
            except Exception as error:  # reported by whoever runs the server
                self.state, self.failure = "failed", error
                failed()
                return
        if self.state == "loading":
            self.state = "ready"
            self.metrics.ready.set(1)
            _log.info("ready", extra={"facts": {"classes": len(self.model.classes), "certificate": self.model.kind}})

    def _opened(self) -> ServedModel:
        self.desk.open()
        model = ServedModel(self._load())
        for quick in (True, False):
            model.explain(quick, [_WARM_UP])
        return model

    def drain(self) -> None:
        """Tell load balancers to send no more; what is in work is still answered."""
        self.state = "failed" if self.failure else "draining"
        self.metrics.ready.set(0)
        self.desk.stop()

    async def close(self) -> None:
        """End the threads."""
        self.drain()
        if self._loading is not None:
            await asyncio.gather(self._loading, return_exceptions=True)
        await asyncio.gather(self._decisions.close(), self._certificates.close())
        await asyncio.to_thread(self.desk.close)

    @property
    def model(self) -> ServedModel:
        """The model.

        Raises:
            NotReady: While it is being loaded.
        """
        if self._model is None:
            raise NotReady()
        return self._model

    @property
    def alive(self) -> bool:
        """Whether the threads that run the model are there."""
        return self.state != "failed" and self._decisions.alive and self._certificates.alive

    async def decide(self, texts: Sequence[Any], quality: Quality) -> list[Decided]:
        """Decide about the texts of a request, long ones window by window."""
        if quality == "certified":
            settings = self.certify_settings(estimation_samples=self.settings.default_samples)
            cuts = await self.cut(texts)
            decided, certificates = await _both(
                self._decided(cuts, quality, self.settings.certify_timeout), self._certified(cuts, settings)
            )
            return [
                Decided(own.cut, own.prediction, own.parts, own.under_attack, certificate)
                for own, certificate in zip(decided, certificates, strict=True)
            ]
        return await self._decided(await self.cut(texts), quality, self.settings.timeout)

    async def certify(self, texts: Sequence[Any], settings: CertifyConfig) -> list[tuple[Cut, Certificate]]:
        """Certify the texts of a request."""
        cuts = await self.cut(texts)
        return list(zip(cuts, await self._certified(cuts, settings), strict=True))

    def certify_settings(self, **wanted: Any) -> CertifyConfig:
        """Return checked settings of a certificate.

        Raises:
            Refused: If the model has no such certificate, or it would take too many draws.
        """
        limit = self.settings.max_samples
        for name in ("estimation_samples", "selection_samples"):
            if wanted.get(name, 1) > limit:
                raise Refused(f"{name}: expected at most {limit}, got {wanted[name]}")
        try:
            return self.model.certify_config(**wanted)
        except (ConfigError, NotCertifiable) as error:
            raise Refused(str(error)) from error

    async def cut(self, texts: Sequence[Any], whole: bool = False) -> list[Cut]:
        """Check texts and cut those that are too long; `whole` refuses them.

        Raises:
            Refused: If a text cannot be classified, or there are too many or too long ones.
        """
        limits = self.settings
        if len(texts) > limits.max_texts:
            raise Refused(f"texts: expected at most {limits.max_texts}, got {len(texts)}; send several requests")
        try:
            checked = as_texts(texts)
        except InputError as error:
            raise Refused(str(error)) from error
        windower = self.model.windower

        def cut() -> list[Cut]:
            return [windower.cut(text) for text in checked]

        long = sum(len(part) for text in checked for part in ([text] if isinstance(text, str) else text)) > _INLINE
        cuts = await asyncio.to_thread(cut) if long else cut()
        if whole and not all(own.whole for own in cuts):
            raise Refused(
                f"expected a text that the model reads at once ({self.model.max_length} tokens), got a longer"
            )
        tokens, windows = sum(own.tokens for own in cuts), sum(len(own.windows) for own in cuts)
        if tokens > limits.max_tokens or windows > limits.max_windows:
            raise Refused(
                f"expected at most {limits.max_tokens} tokens and {limits.max_windows} windows of "
                f"{self.model.max_length} tokens in a request, got {tokens} and {windows}; send shorter or fewer texts"
            )
        return cuts

    async def _decided(self, cuts: Sequence[Cut], quality: Quality, timeout: float) -> list[Decided]:
        texts = [window.text for own in cuts for window in own.windows]
        key = (quality == "fast", isinstance(texts[0], str))  # texts and pairs do not share a batch
        found = iter(await self._decisions.submit(key, texts, timeout))
        decided = []
        for own in cuts:
            parts = tuple(next(found) for _ in own.windows)
            decided.append(Decided(own, merge(own, parts), parts, max(under_attack(part) for part in parts)))
        for each in decided:
            told = each.prediction
            self.metrics.decided(quality, told.escalated, told.abstained, not each.cut.whole, each.under_attack)
        return decided

    async def _certified(self, cuts: Sequence[Cut], settings: CertifyConfig) -> list[Certificate]:
        whole, most = [own.text for own in cuts if own.whole], self.settings.max_certificates
        if len(whole) > most:
            raise Refused(f"expected at most {most} texts to certify, got {len(whole)}; send several requests")
        found: list[Certificate] = []
        if whole:
            key = (settings, isinstance(whole[0], str))
            found = await self._certificates.submit(key, whole, self.settings.certify_timeout)
        proved = iter(found)
        certificates = [next(proved) if own.whole else self.model.uncertified(settings, own) for own in cuts]
        for certificate in certificates:
            self.metrics.certificates.labels("abstained" if certificate.abstained else "certified").inc()
        return certificates


async def _both(one: Coroutine[Any, Any, _One], other: Coroutine[Any, Any, _Other]) -> tuple[_One, _Other]:
    """Wait for two things; if one fails, the other is given up."""
    first, second = asyncio.ensure_future(one), asyncio.ensure_future(other)
    try:
        return await asyncio.gather(first, second)
    finally:
        first.cancel()
        second.cancel()
