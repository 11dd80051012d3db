"""A model and texts -> certificates, a chunk of texts at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from rsmi.certify.certificate import Certificate
from rsmi.certify.embedding import EmbeddingSmoothing
from rsmi.certify.hidden import HiddenSmoothing
from rsmi.certify.sampling import Ask, Bounds, Tally, bounds_of, estimate, pick
from rsmi.certify.settings import CertifyConfig
from rsmi.certify.smoothing import Smoothing
from rsmi.certify.wordwise import DeletedWords, MaskedWords, ReplacedWords
from rsmi.method.engine import Engine
from rsmi.method.words import split_words
from rsmi.records import Label, TextInput
from rsmi.seeds import derive, fresh_key

_CHUNK = 32  # texts whose copies share batches

_KINDS: dict[str, type[Smoothing]] = {
    "l2-hidden": HiddenSmoothing,
    "l2-embedding": EmbeddingSmoothing,
    "l0-mask": MaskedWords,
    "edit": DeletedWords,
    "synonym": ReplacedWords,
}


def open_smoothing(engine: Engine, settings: CertifyConfig) -> Smoothing:
    """Return the model smoothed as a certificate needs it, or say why it cannot be certified so."""
    return _KINDS[settings.kind](engine, settings)


def certify_texts(
    engine: Engine, texts: Iterable[TextInput], classes: Sequence[Label], settings: CertifyConfig
) -> Iterator[Certificate]:
    """Certify texts as they come.

    A certificate depends on its own text and key alone, whatever texts are around it; with a seed, two calls agree.
    """
    smoothing = open_smoothing(engine, settings)
    pending, root, done = iter(texts), fresh_key(), 0
    while chunk := list(islice(pending, _CHUNK)):
        keys = [derive(engine.key(text, root, done + place), "certify") for place, text in enumerate(chunk)]
        yield from _certify_chunk(smoothing, chunk, keys, classes)
        done += len(chunk)


def _certify_chunk(
    smoothing: Smoothing, texts: Sequence[TextInput], keys: Sequence[int], classes: Sequence[Label]
) -> list[Certificate]:
    settings, by_place = smoothing.settings, dict(enumerate(keys))
    strata = {place: smoothing.strata(text) for place, text in enumerate(texts)}
    wanted = settings.radius or 0.0

    ask: Ask = partial(smoothing.votes, texts)
    labels = pick(ask, strata, by_place, settings.selection_samples, len(classes))
    cells = [(place, number) for place, own in strata.items() for number in range(own)]
    failure_probs = {cell: settings.failure_prob / strata[cell[0]] for cell in cells}
    levels = {place: smoothing.level(text, wanted) for place, text in enumerate(texts)}
    tallies = estimate(
        ask,
        {cell: labels[cell[0]] for cell in cells},
        by_place,
        {cell: levels[cell[0]] for cell in cells},
        failure_probs,
        settings,
        len(classes),
    )
    return [
        _certificate(
            smoothing,
            text,
            [(tallies[place, number], failure_probs[place, number]) for number in range(strata[place])],
            classes,
        )
        for place, text in enumerate(texts)
    ]


def _certificate(
    smoothing: Smoothing, text: TextInput, tallies: Sequence[tuple[Tally, float]], classes: Sequence[Label]
) -> Certificate:
    """Write down what the least favourable of a text's classifiers allows."""
    settings = smoothing.settings
    proved = [(bounds_of(tally, share, settings), tally, share) for tally, share in tallies]
    worst = Bounds(min(own.p_lower for own, _, _ in proved), max(own.p_upper_other for own, _, _ in proved))
    _, tally, share = min(proved, key=lambda each: each[0].p_lower)
    radius = smoothing.radius(text, worst, tally, share) if worst.certain else 0.0
    return Certificate(
        text=text,
        label=classes[tally.label] if worst.certain else None,
        kind=settings.kind,
        masking=settings.masking,
        space=smoothing.space,
        radius=radius,
        noise_std=smoothing.noise_std,
        counts={label: int(count) for label, count in zip(classes, tally.counts, strict=True)},
        p_lower=worst.p_lower,
        p_upper_other=worst.p_upper_other,
        failure_prob=settings.failure_prob,
        samples=settings.selection_samples + sum(len(own.keys) for own, _ in tallies),
        num_words=sum(map(len, split_words(text))),
        _space=smoothing,
    )
