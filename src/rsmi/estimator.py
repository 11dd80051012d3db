"""scikit-learn's conventions for a classifier whose settings are two frozen records."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from tqdm.auto import tqdm

from rsmi.certify import Certificate, CertifyConfig, certify_texts, open_smoothing
from rsmi.config import RsmiConfig, TrainConfig
from rsmi.errors import ConfigError
from rsmi.method.engine import Engine
from rsmi.method.inference import is_random
from rsmi.method.inputs import as_texts, check_each
from rsmi.pipeline import RsmiPipeline
from rsmi.records import TextInput
from rsmi.settings import by_owner, updated

S = TypeVar("S", bound="SettingsEstimator")


class SettingsEstimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Nested settings as `config__noise_std`; a lock that copies of the classifier do not share."""

    config: RsmiConfig | None
    profile: str | None
    train_config: TrainConfig | None

    @property
    def config_(self) -> RsmiConfig:
        """The settings in force."""
        return self._asked_config or RsmiConfig()

    @property
    def _asked_config(self) -> RsmiConfig | None:
        """The constructor's settings, if it was given any."""
        if self.profile is None:
            return self.config
        if self.config is not None:
            raise ConfigError(
                f"expected config or profile, got both; to change some fields of a profile pass "
                f"config=RsmiConfig.profile({self.profile!r}, ...)"
            )
        return RsmiConfig.profile(self.profile)

    @property
    def randomised(self) -> bool:
        """Whether the answer depends on random draws, be they fixed by a seed or not."""
        return is_random(self.config_)

    @property
    def uses_gradients(self) -> bool:
        """Whether a prediction takes a gradient."""
        return self.config_.masking == "gradient"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments and, if `deep`, each setting as `config__...` or `train_config__...`."""
        params: dict[str, Any] = super().get_params(deep=False)
        if deep:
            for name, value in (("config", self.config_), ("train_config", self.train_config or TrainConfig())):
                params |= {f"{name}__{field.name}": getattr(value, field.name) for field in fields(value)}
        return params

    def set_params(self: S, **params: Any) -> S:
        """Set arguments of the constructor; `config__noise_std=0.3` changes one setting."""
        super().set_params(**{name: value for name, value in params.items() if "__" not in name})
        if "base" in params:
            self.__dict__.pop("_saved_config", None)
        nested = by_owner(params, ("config", "train_config"))  # all at once: some fields only fit together
        if nested["config"]:
            self.config, self.profile = updated(self.config_, **nested["config"]), None
        if nested["train_config"]:
            self.train_config = updated(self.train_config or TrainConfig(), **nested["train_config"])
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_made_runner")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


class PipelineStyle:
    """Lets a classifier be used where a text-classification pipeline of transformers is expected."""

    def as_pipeline(self, **choices: Any) -> RsmiPipeline:
        """Return an object that is called like a transformers text-classification pipeline; see `RsmiPipeline`.

        Args:
            **choices: Defaults of its calls, such as `top_k=None`.
        """
        return RsmiPipeline(self, **choices)  # type: ignore[arg-type]

    def __call__(self, inputs: Any, **choices: Any) -> Any:
        """Classify like a transformers text-classification pipeline: dicts with `label` and `score`.

        Args:
            inputs: A text, a `{"text": ..., "text_pair": ...}`, a list of either, or an iterable to be streamed.
            **choices: `top_k`: None for all classes, or how many, gives a list for each text.
        """
        return self.as_pipeline()(inputs, **choices)


class Certifying:
    """Lets a classifier certify its answers."""

    classes_: np.ndarray[Any, Any]
    progress: bool | None

    def engine(self, draw: int = 0) -> Engine:
        """Return the loaded model with the settings in force."""
        raise NotImplementedError

    def certify(self, texts: Sequence[TextInput], **settings: Any) -> list[Certificate]:
        """Return, for each text, what is proved about the class that most random copies of it choose.

        Args:
            texts: Texts or pairs.
            **settings: Fields of `CertifyConfig`: `kind` (by default what the model was trained for), `masking`,
                `selection_samples`, `estimation_samples`, `failure_prob`, `bound`, `radius`.

        Raises:
            NotCertifiable: If no true statement of that kind can be made about this model.
        """
        return list(self.certify_iter(as_texts(texts), **settings))

    def certify_iter(
        self, texts: Iterable[TextInput], total: int | None = None, **settings: Any
    ) -> Iterator[Certificate]:
        """Yield certificates one by one from any iterable of texts, in constant memory; see `certify`."""
        engine = self.engine()
        wanted = CertifyConfig.suited(engine.config, **settings)
        total = len(texts) if isinstance(texts, Sequence) else total
        shown = sys.stderr.isatty() if self.progress is None else self.progress
        certificates = certify_texts(engine, check_each(texts), tuple(self.classes_.tolist()), wanted)
        yield from tqdm(certificates, "certify", total, unit="text", disable=not shown, dynamic_ncols=True)

    def attach(self, certificate: Certificate, **settings: Any) -> Certificate:
        """Return a certificate that was read from a file, ready to be asked what it covers.

        Args:
            certificate: Made by this model.
            **settings: Fields of `CertifyConfig` that it was made with; its kind and masking are known.
        """
        known = {"kind": certificate.kind, "masking": certificate.masking}
        return certificate.attached(open_smoothing(self.engine(), CertifyConfig(**{**known, **settings})))
