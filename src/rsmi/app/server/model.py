"""A loaded classifier as the server's threads use it: one at a time, in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rsmi.app.server.quality import fast
from rsmi.app.server.turns import Turns, WhileWanted
from rsmi.certify import Certificate, CertifyConfig, certify_texts, open_smoothing
from rsmi.classifier import RsmiClassifier
from rsmi.errors import NotCertifiable
from rsmi.method.windows import Cut, Windower
from rsmi.method.words import split_words
from rsmi.records import Label, Prediction, TextInput


class ServedModel:
    """Answers of every quality from one set of weights.

    Args:
        classifier: Loaded and trained.
    """

    def __init__(self, classifier: RsmiClassifier) -> None:
        self.turns = Turns()
        self.classes: tuple[Label, ...] = tuple(classifier.classes_.tolist())
        engine = classifier.engine()  # makes what classifies the copies, before others share it
        self.standard = classifier
        self.fast = classifier.with_config(fast(classifier.config_))
        self.max_length = engine.max_tokens
        self.windower = Windower(engine.loaded.tokenizer, self.max_length)
        self._certified = replace(engine, lock=self.turns)
        self.kind, self.not_certifiable = self._kind()

    def _kind(self) -> tuple[str | None, str]:
        """Return the kind of certificate that suits the model, or why there is none."""
        try:
            settings = CertifyConfig.suited(self.standard.config_)
            open_smoothing(self._certified, settings)
        except NotCertifiable as error:
            return None, str(error)
        return settings.kind, ""

    def certify_config(self, **wanted: Any) -> CertifyConfig:
        """Return settings of a certificate, with what suits the model where nothing is said.

        Raises:
            NotCertifiable: If this model has no such certificate.
            ConfigError: If the settings do not fit together.
        """
        settings = CertifyConfig.suited(self.standard.config_, **wanted)
        open_smoothing(self._certified, settings)
        return settings

    def explain(self, quick: bool, texts: Sequence[TextInput]) -> list[Prediction]:
        """Decide about texts, all strings or all pairs."""
        with self.turns:
            return (self.fast if quick else self.standard).explain(texts)

    def certify(
        self, settings: CertifyConfig, texts: Sequence[TextInput], wanted: Callable[[], bool]
    ) -> list[Certificate]:
        """Certify texts, in turns of a few hundred draws.

        Raises:
            Abandoned: As soon as it is not wanted any more.
        """
        engine = replace(self._certified, lock=WhileWanted(self.turns, wanted))
        return list(certify_texts(engine, texts, self.classes, settings))

    def uncertified(self, settings: CertifyConfig, cut: Cut) -> Certificate:
        """Return the abstention for a text that the model does not read at once: no draw, so nothing is proved.

        A certificate for each window would say nothing about the text: whoever changes words moves the windows.
        """
        smoothing = open_smoothing(self._certified, settings)
        return Certificate(
            text=cut.text,
            label=None,
            kind=settings.kind,
            masking=settings.masking,
            space=smoothing.space,
            radius=0.0,
            noise_std=smoothing.noise_std,
            counts=dict.fromkeys(self.classes, 0),
            p_lower=0.0,
            p_upper_other=1.0,
            failure_prob=settings.failure_prob,
            samples=0,
            num_words=sum(map(len, split_words(cut.text))),
        )
