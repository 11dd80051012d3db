"""Penn Treebank tag -> universal tag (Petrov, Das and McDonald 2012), as NLTK's `en-ptb.map` has it."""

from __future__ import annotations

from typing import Final

_PENN: Final = {
    ".": "! # $ '' ( ) , -LRB- -RRB- . : ? ``",
    "ADJ": "JJ JJR JJRJR JJS JJ|RB JJ|VBG",
    "ADP": "IN IN|RP",
    "ADV": "RB RBR RBS RB|RP RB|VBG WRB",
    "CONJ": "CC",
    "DET": "DT EX PDT WDT",
    "NOUN": "NN NNP NNPS NNS NN|NNS NN|SYM NN|VBG NP",
    "NUM": "CD",
    "PRON": "PRP PRP$ PRP|VBP WP WP$",
    "PRT": "POS PRT RP TO",
    "VERB": "MD VB VBD VBD|VBN VBG VBG|NN VBN VBP VBP|TO VBZ VP",
    "X": "CD|RB FW LS RN SYM UH WH",
}
_UNIVERSAL: Final = {tag: universal for universal, tags in _PENN.items() for tag in tags.split()}


def universal_tag(penn: str) -> str:
    """Return the universal tag of a Penn Treebank tag; X for one that is not known."""
    return _UNIVERSAL.get(penn, "X")
