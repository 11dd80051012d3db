"""`RsmiClassifier`: wires the method, trains, saves and loads; holds no maths."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from tqdm.auto import tqdm
from transformers import TrainerCallback

from rsmi.config import RsmiConfig, TrainConfig
from rsmi.errors import LabelError, NotFittedError
from rsmi.estimator import Certifying, PipelineStyle, SettingsEstimator
from rsmi.guard import Guarding
from rsmi.method import checkpoint
from rsmi.method.backends import open_runner
from rsmi.method.encoder import Encoder
from rsmi.method.engine import Engine
from rsmi.method.explanation import explain
from rsmi.method.inference import Detail, Outcome
from rsmi.method.inputs import as_classes, as_count, as_texts
from rsmi.method.pretrained import Pretrained, as_device, as_dtype, load_pretrained, take_over
from rsmi.method.substitution import SynonymTable, read_table
from rsmi.method.tokens import Encoded
from rsmi.records import Label, Prediction, TextInput
from rsmi.seeds import derive, drawn
from rsmi.training.preparation import prepare, train
from rsmi.training.processes import is_first, shared_key, wait_for_all

Array: TypeAlias = np.ndarray[Any, Any]
_BAR_FROM = 100  # texts from which a progress bar is worth its lines


class RsmiClassifier(Certifying, Guarding, PipelineStyle, SettingsEstimator):
    """A text classifier that holds up under attack: noise in its layers, masks on its most salient tokens, a vote.

    Follows scikit-learn's conventions: settings in the constructor, `fit` starts afresh from `base`, nested settings
    as `config__noise_std` and `train_config__epochs`.

    Args:
        base: "minilm" (embedded, offline), a model folder or a hub id.
        config: Settings of the method; by default those of the checkpoint, or the paper's.
        profile: In its place settings by name, for those who do not tune: "fast", "balanced" or "robust".
        train_config: Settings of training.
        classes: Labels in the order of the head's outputs; by default the checkpoint's, or the sorted training labels.
        synonyms: What words may be replaced by under `config.substitution`: a table, or a JSON file of one; by default
            the checkpoint's.
        seed: An int gives the same answer to the same text whatever the batch; None (for deployment) draws fresh noise
            on every call, so that an attacker cannot foresee it.
        device: A torch device; by default a GPU if there is one.
        dtype: Type of the weights: "float32", "bfloat16" or "float16".
        backend: How copies and the gradients behind masks are computed: "torch", "int8" (weights, activations and
            gradients in 8 bits, on a CPU: faster, and some votes and masks differ) or "compile" (torch.compile).
        token_budget: Tokens of one forward pass; lower it if memory runs out. By default 2048 on a CPU, 1024 with
            one thread, since caches hold no more, and on a GPU what its memory holds.
        progress: Show a progress bar on stderr; by default for 100 texts or more, on a terminal.
    """

    training_: dict[str, Any]
    _made_runner: tuple[str, Encoder] | None = None

    def __init__(
        self,
        base: str = "minilm",
        config: RsmiConfig | None = None,
        train_config: TrainConfig | None = None,
        *,
        profile: str | None = None,
        classes: Sequence[Label] | None = None,
        synonyms: SynonymTable | str | Path | None = None,
        seed: int | None = None,
        device: str | torch.device | None = None,
        dtype: str = "float32",
        backend: str = "torch",
        token_budget: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.base = base
        self.config = config
        self.profile = profile
        self.train_config = train_config
        self.classes = classes
        self.synonyms = synonyms
        self.seed = seed
        self.device = device
        self.dtype = dtype
        self.backend = backend
        self.token_budget = token_budget
        self.progress = progress
        self._lock = threading.RLock()

    @classmethod
    def from_pretrained(cls, source: str | Path, config: RsmiConfig | None = None, **settings: Any) -> RsmiClassifier:
        """Load a saved classifier, or a pretrained model to be trained with `fit`.

        Args:
            source: A folder written by `save_pretrained`, "minilm", any other model folder or a hub id.
            config: Overrides the settings saved with the classifier.
            **settings: Further arguments of the constructor (`classes`, `seed`, `device`, `dtype`, ...).
        """
        classifier = cls(str(source), config, **settings)
        classifier._load()
        return classifier

    def fit(
        self,
        texts: Sequence[TextInput],
        labels: Sequence[Label],
        train_config: TrainConfig | None = None,
        *,
        dev: tuple[Sequence[TextInput], Sequence[Label]] | None = None,
        added: tuple[Sequence[TextInput], Sequence[Label]] | None = None,
        folder: str | Path | None = None,
        callbacks: Sequence[TrainerCallback] = (),
    ) -> RsmiClassifier:
        """Train from `base` on labelled texts and return the classifier.

        Args:
            texts: Texts, or pairs of texts.
            labels: Their classes.
            train_config: Settings of training; by default those of the constructor.
            dev: Texts and labels that choose the best epoch; by default a stratified part of the training texts.
            added: Adversarial texts and their true labels, added to the training texts (`method="advaug"`).
            folder: Where the run saves itself after every epoch (`save_every`: more often). If it holds an interrupted
                run of the same settings and texts, training goes on from there, with the same weights in the end.
            callbacks: `TrainerCallback`s of transformers.
        """
        settings = train_config or self.train_config or TrainConfig()
        seed = shared_key() if self.seed is None else as_count(self.seed, "seed", 0)
        given = prepare(texts, labels, dev, added, self._known_classes(), settings, seed)
        with self._lock:
            engine = self._engine(self._load_base(len(given.classes), seed))
            shown = sys.stderr.isatty() if self.progress is None else self.progress
            own = None if folder is None else Path(folder)
            record, weights = train(engine, str(self.base), given, settings, seed, shown, own, callbacks)
            loaded = engine.loaded
            if weights is not None:  # the model is spread over processes: a fresh one takes them
                loaded = self._load_base(len(given.classes), seed)
                take_over(loaded, engine.loaded, weights)
            self._adopt(loaded, given.classes)
            self.training_ = record
        return self

    def predict(self, texts: Sequence[TextInput]) -> Array:
        """Return the class of each text; under `stop="sequential"` an object array, None where it abstains."""
        winners = [outcome.decision.winner for _, _, outcome in self._outcomes(as_texts(texts), detail="label")]
        if self.config_.stop == "sequential":
            return np.array([None if winner is None else self.classes_[winner] for winner in winners], dtype=object)
        return self.classes_[np.array(winners, dtype=np.int64)]

    def predict_proba(self, texts: Sequence[TextInput]) -> Array:
        """Return shares of the deciding votes (or of the averaged logits), (texts, classes); rows sum to 1."""
        outcomes = self._outcomes(as_texts(texts), detail="probabilities")
        rows = [outcome.decision.probabilities for _, _, outcome in outcomes]
        return np.stack(rows) if rows else np.empty((0, len(self.classes_)))

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> Array:
        """Return `predict_proba` as an attacker gets it: blank texts are answered, too.

        With a seed, another `draw` gives other, independent noise; without one every call does.
        """
        return self.engine(draw).probabilities(list(texts))

    def query_each(self, texts: Sequence[TextInput], draws: Sequence[int]) -> Array:
        """Return what `query` does, each text under a draw of its own: many draws of one text are one call."""
        return self.engine().probabilities(list(texts), list(draws))

    def engine(self, draw: int = 0) -> Engine:
        """Return the loaded model with the settings in force, for what needs more than answers: white-box attacks."""
        self._require_fitted()
        return self._engine(self._loaded, draw, self._runner())

    def with_config(self, config: RsmiConfig) -> RsmiClassifier:
        """Return a classifier with other settings of the method and the same weights: shared, not copied."""
        other = copy.copy(self)
        other.config, other.profile = config, None
        other._lock, other._made_runner = self._lock, self._made_runner  # one model, one lock
        return other

    def explain(self, texts: Sequence[TextInput]) -> list[Prediction]:
        """Return each decision with its votes, salient tokens and masks."""
        return list(self.explain_iter(as_texts(texts)))

    def explain_iter(self, texts: Iterable[TextInput], total: int | None = None) -> Iterator[Prediction]:
        """Yield explanations one by one from any iterable of texts, in constant memory.

        Args:
            texts: Texts or pairs; read a few hundred at a time.
            total: Their number, for the progress bar, where `texts` has no length.
        """
        config, classes = self.config_, self._class_tuple()
        for text, row, outcome in self._outcomes(texts, total):
            yield explain(outcome, text, row, self._loaded.tokenizer, classes, config)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write an ordinary HF checkpoint (safetensors) and `rsmi_config.json`; an older one is replaced at the end."""
        self._require_fitted()
        model, classes = self._loaded.encoder.model, self._class_tuple()
        model.config.id2label = {i: str(label) for i, label in enumerate(classes)}
        model.config.label2id = {str(label): i for i, label in enumerate(classes)}
        table = self._table() if self.config_.substitution else None
        settings = checkpoint.Settings(config=self.config_, classes=classes, training=self.training_, synonyms=table)
        if is_first():  # of several processes training together
            checkpoint.save(folder, self._loaded.encoder, self._loaded.tokenizer, settings, version("rsmi"))
        wait_for_all()

    @property
    def config_(self) -> RsmiConfig:
        """The settings in force: the constructor's, else the checkpoint's, else the defaults."""
        asked, saved = self._asked_config, getattr(self, "_saved_config", None)
        if asked is None and saved is None and checkpoint.is_checkpoint(self.base):  # not loaded yet: a clone
            saved = self._saved_config = checkpoint.read_settings(self.base).config
        return asked or saved or RsmiConfig()

    @property
    def fingerprint(self) -> str:
        """A number that follows the weights and the classes, for the record of a run."""
        return checkpoint.fingerprint(self.engine().loaded.encoder.model, self._class_tuple())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_loaded") and hasattr(self, "classes_")

    def _outcomes(
        self, texts: Iterable[TextInput], total: int | None = None, detail: Detail = "votes"
    ) -> Iterator[tuple[TextInput, Encoded, Outcome]]:
        self._require_fitted()
        total = len(texts) if isinstance(texts, Sequence) else total
        many = sys.stderr.isatty() and (total is None or total >= _BAR_FROM)
        shown = many if self.progress is None else self.progress
        outcomes = self.engine().outcomes(texts, detail)
        yield from tqdm(outcomes, "classify", total, unit="text", disable=not shown, dynamic_ncols=True)

    def _engine(self, loaded: Pretrained, draw: int = 0, runner: Encoder | None = None) -> Engine:
        seed = None if self.seed is None else drawn(as_count(self.seed, "seed", 0), draw)
        own = loaded.encoder.token_budget
        budget = own if self.token_budget is None else as_count(self.token_budget, "token_budget", 1)
        return Engine(loaded, runner or loaded.encoder, self.config_, seed, budget, self._table(), self._lock)

    def _runner(self) -> Encoder:
        if self._made_runner is None or self._made_runner[0] != self.backend:  # once, not on every call
            self._made_runner = (self.backend, open_runner(self._loaded.encoder, self.backend))
        return self._made_runner[1]

    def _table(self) -> SynonymTable | None:
        if isinstance(self.synonyms, (str, Path)):
            return read_table(Path(self.synonyms))
        return self.synonyms or getattr(self, "_saved_synonyms", None)

    def _load(self) -> None:
        """Load `base` as it is; it can predict at once if it has a trained head."""
        if checkpoint.is_checkpoint(self.base):
            settings = checkpoint.read_settings(self.base)
            if self.classes is not None and as_classes(self.classes) != settings.classes:
                raise LabelError(f"classes: expected those of {self.base}, {settings.classes}, got {self.classes}")
            self._saved_config, self._saved_synonyms = settings.config, settings.synonyms
            self.training_ = settings.training
            self._adopt(self._load_base(len(settings.classes), 0, trained=True), settings.classes)
            return
        classes = None if self.classes is None else as_classes(self.classes)
        loaded = self._load_base(None if classes is None else len(classes), self.seed or 0)
        if loaded.new_head:
            return
        names = loaded.encoder.model.config.id2label
        self._adopt(loaded, classes or as_classes(names[i] for i in sorted(names)))

    def _load_base(self, num_labels: int | None, seed: int, trained: bool = False) -> Pretrained:
        device, dtype = as_device(self.device), as_dtype(self.dtype)
        return load_pretrained(str(self.base), num_labels, derive(seed, "head"), device, dtype, trained)

    def _known_classes(self) -> Sequence[Label] | None:
        if self.classes is None and checkpoint.is_checkpoint(self.base):
            return checkpoint.read_settings(self.base).classes
        return self.classes

    def _adopt(self, loaded: Pretrained, classes: tuple[Label, ...]) -> None:
        self._loaded = loaded
        self._made_runner = None
        self.classes_ = np.array(classes)
        self.training_ = getattr(self, "training_", {})

    def _class_tuple(self) -> tuple[Label, ...]:
        self._require_fitted()
        return tuple(self.classes_.tolist())

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"expected a trained classifier, {self.base!r} has no head; call fit (rsmi train)")
