"""Write a resource of rsmi for TextAttack's side: `export.py vectors FILE.npz` or `export.py masked-lm FOLDER`."""

import argparse
from pathlib import Path

import numpy as np

from rsmi.resources.masked_lm import MaskedLM
from rsmi.resources.vectors import WordVectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["vectors", "masked-lm"])
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    if options.what == "vectors":
        vectors = WordVectors.open(progress=True)
        np.savez(options.out, words=np.array(vectors.words), vectors=np.asarray(vectors.vectors))
    else:
        model = MaskedLM.open()
        model.model.save_pretrained(options.out)  # type: ignore[operator]
        model.tokenizer.save_pretrained(options.out)


if __name__ == "__main__":
    main()
