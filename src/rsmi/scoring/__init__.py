"""A file of texts, bigger than memory if need be -> the same rows with their predictions, resumable."""

from rsmi.scoring.run import Scored, score_file

__all__ = ["Scored", "score_file"]
