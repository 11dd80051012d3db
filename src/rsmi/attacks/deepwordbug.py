"""In the style of DeepWordBug (Gao et al. 2018): typing errors in the words that matter most.

The parts are TextAttack's (one random edit of each of four kinds, at most 30 edits, words ranked by hiding them); its
random stream is not, so results agree in distribution only.
"""

from __future__ import annotations

from typing import Any

from rsmi.attacks.candidates import CharacterEdits
from rsmi.attacks.constraints import FewEdits
from rsmi.attacks.ranking import by_hiding
from rsmi.attacks.substitution import WordSubstitution
from rsmi.resources.stopwords import NLTK_ENGLISH


class DeepWordBug(WordSubstitution):
    """Swaps, replaces, drops and adds single letters.

    Args:
        max_edits: Most letters changed in a text.
        **settings: See `WordSubstitution` and `Attack`.
    """

    name = "deepwordbug"

    def __init__(self, *, max_edits: int = 30, **settings: Any) -> None:
        super().__init__(
            candidates=CharacterEdits(),
            constraints=[FewEdits(max_edits)],
            ranking=by_hiding,
            stopwords=NLTK_ENGLISH,
            own_settings={"max_edits": max_edits},
            **settings,
        )
