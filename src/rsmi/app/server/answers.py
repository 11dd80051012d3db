"""Records -> the bodies of answers; fields are named as in the records."""

from __future__ import annotations

from typing import Any

from rsmi.app.server.service import Decided
from rsmi.certify import Certificate
from rsmi.method.windows import Cut
from rsmi.records import Label, Prediction

_RULE = "mean of the probabilities of all windows; abstains where more than half of them do"
_BRIEF = ("label", "probabilities", "escalated", "abstained", "truncated", "copies")


def predict_answer(decided: Decided, max_tokens: int) -> dict[str, Any]:
    """Return the decision about a text, without what is behind it."""
    own = decided.prediction
    brief = {name: getattr(own, name) for name in _BRIEF}
    return {**brief, "probabilities": _named(own.probabilities), **_more(decided, max_tokens)}


def explain_answer(decided: Decided, max_tokens: int) -> dict[str, Any]:
    """Return the decision about a text with the votes and masks behind it."""
    values = decided.prediction.to_dict()
    for name in ("probabilities", "first_votes", "second_votes"):
        values[name] = None if values[name] is None else _named(values[name])
    return {**values, **_more(decided, max_tokens)}


def certify_answer(certificate: Certificate, cut: Cut, max_tokens: int) -> dict[str, Any]:
    """Return a certificate; one for a text that was not read at once says so."""
    windows = None if cut.whole else _windows(cut, (), None, max_tokens)
    return {**certificate.to_dict(), "abstained": certificate.abstained, "windows": windows}


def _more(decided: Decided, max_tokens: int) -> dict[str, Any]:
    cut, certificate, label = decided.cut, decided.certificate, decided.prediction.label
    shares = decided.prediction.probabilities
    likeliest = max(shares, key=shares.__getitem__) if label is None else label
    return {
        "under_attack": round(decided.under_attack, 6),  # saliency differs in its last digits from batch to batch
        "windows": None if cut.whole else _windows(cut, decided.parts, likeliest, max_tokens),
        "certificate": None if certificate is None else certify_answer(certificate, cut, max_tokens),
        "certified": None if certificate is None else certificate.label is not None and certificate.label == label,
    }


def _windows(cut: Cut, parts: tuple[Prediction, ...], label: Label | None, max_tokens: int) -> dict[str, Any]:
    """Tell how a long text was read; without decisions where it was only cut."""
    told = [
        {"spans": window.spans, "label": own.label, "probabilities": _named(own.probabilities)}
        for window, own in zip(cut.windows, parts, strict=False)
    ]
    sure = [0.0 if label is None else own.probabilities[label] for own in parts]
    return {
        "count": len(cut.windows),
        "tokens": cut.tokens,
        "max_tokens": max_tokens,
        "rule": _RULE if parts else "no certificate for a text that the model does not read at once",
        "decisive": sure.index(max(sure)) if sure else None,
        "windows": told,
    }


def _named(shares: dict[Label, Any]) -> dict[str, Any]:
    """Return classes as JSON names them; `label` keeps its own type."""
    return {str(label): value for label, value in shares.items()}
