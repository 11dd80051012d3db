"""A certificate: what it says about a text, and which other texts it covers."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from rsmi.errors import NotCertifiable
from rsmi.method.substitution import SynonymTable
from rsmi.records import Label, TextInput


class Substitutions(NamedTuple):
    """How many words of a text may be replaced by synonyms."""

    words: int
    """Any so many words, each by any of the synonyms that are covered."""
    coverage: float
    """Share of all (word, synonym) pairs that the statement is about; 1 where there are none."""
    misaligned: int
    """Pairs it is not about: the synonym has another number of tokens."""


class Space(Protocol):
    """Measures how far another text is from a certified one."""

    def covers(self, certificate: Certificate, other: TextInput) -> bool | None:
        """Whether `other` is within the radius; None where the two cannot be compared."""
        ...

    def substitutions(self, certificate: Certificate, table: SynonymTable) -> Substitutions:
        """Count the words that may be replaced."""
        ...

    def joint_radius(self, certificate: Certificate, changed: int) -> float:
        """Return how far all other words may move when `changed` words become anything."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A statement about the smoothed classifier: the class that most of its random copies choose.

    Within `radius` of `text`, measured in `space`, that class is `label`. The statement is wrong with chance
    `failure_prob` at most, over the draws it was made from.
    """

    text: TextInput
    label: Label | None
    """The class; None where the votes prove nothing (abstention)."""
    kind: str
    masking: str
    space: str
    """Where the radius is measured; it says nothing about distances anywhere else."""
    radius: float
    """A distance below which the label holds, or the number of words up to which it does; 0 where it abstains."""
    noise_std: float
    """Of the noise that the radius rests on; 0 for words."""
    counts: dict[Label, int]
    """Votes of the draws that bound the probabilities."""
    p_lower: float
    """The label's probability is at least this."""
    p_upper_other: float
    """No other class's probability is above this."""
    failure_prob: float
    samples: int
    """Draws made, those that picked the class included."""
    num_words: int
    """Words of the text."""
    _space: Space | None = field(default=None, repr=False, compare=False)

    @property
    def abstained(self) -> bool:
        """Whether nothing was proved."""
        return self.label is None

    def covers(self, other: TextInput) -> bool | None:
        """Whether the certificate says that `other` gets the same label; None where it says nothing about such texts.

        None: for `l2-*` another number of tokens, for `l0-mask` another number of words, for `synonym` other changes
        than words for words. False: within reach of the measure, but too far, or the certificate abstains.
        """
        if self.abstained:
            return False
        return self._measure.covers(self, other)

    def certified_substitutions(self, table: SynonymTable) -> Substitutions:
        """Count the words that may be replaced, each by any of its synonyms."""
        return self._measure.substitutions(self, table)

    def joint_radius(self, changed: int) -> float:
        """Return how far the embeddings of all other words may move, in L2, when `changed` words become anything.

        For `l0-mask` on a model with noise at its embeddings; 0 where so many words are not certified.
        """
        return self._measure.joint_radius(self, changed)

    def attached(self, space: Space) -> Certificate:
        """Return the certificate with what measures distances, after it was read from a file."""
        return replace(self, _space=space)

    @property
    def _measure(self) -> Space:
        if self._space is None:
            raise NotCertifiable(
                "expected a certificate that knows its model; one read from a file does not: use "
                "RsmiClassifier.attach(certificate, ...) with the settings it was made with"
            )
        return self._space

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Certificate:
        """Read what `to_dict` wrote."""
        text = tuple(values["text"]) if isinstance(values["text"], list) else values["text"]
        counts = {label: int(count) for label, count in values["counts"]}
        return cls(**{**values, "text": text, "counts": counts})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; counts as pairs, since labels may be numbers."""
        values = asdict(replace(self, _space=None))
        del values["_space"]
        return {**values, "counts": [[label, count] for label, count in self.counts.items()]}
