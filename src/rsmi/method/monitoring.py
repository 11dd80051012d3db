"""How much a decision looks like one under attack."""

from __future__ import annotations

from rsmi.records import Prediction


def under_attack(prediction: Prediction) -> float:
    """Return the share of step-one votes against their winner, scaled to 0 (unanimous) ... 1 (evenly split)."""
    votes = prediction.first_votes
    total, even = sum(votes.values()), 1 - 1 / len(votes)
    return (1 - max(votes.values()) / total) / even
