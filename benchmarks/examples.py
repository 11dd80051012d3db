"""Run the examples as a reader does, without options, and keep what they print in examples/outputs/.

    python benchmarks/examples.py
    python benchmarks/examples.py spam_filter pair_classifier

Every output ends with the versions it was made with; a test holds the quotations in examples/README.md against them.
"""

import argparse
import os
import subprocess
import sys

from environment import ROOT, environment

EXAMPLES = ROOT / "examples"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="examples to run; all without")
    names = parser.parse_args().names or sorted(path.stem for path in EXAMPLES.glob("*.py"))
    made_with = versions()
    (EXAMPLES / "outputs").mkdir(exist_ok=True)
    for name in names:
        words = f"examples/{name}.py"
        print(words, flush=True)
        done = subprocess.run(
            [sys.executable, words],
            cwd=ROOT,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        kept = EXAMPLES / "outputs" / f"{name}.txt"
        kept.write_text(f"$ python {words}\n{done.stdout}\n{made_with}\n", encoding="utf-8")


def versions() -> str:
    """Return what outputs depend on, in a line."""
    about = environment()
    found = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return f"versions: {found}, Python {about['python']}; {', '.join(about['devices'])}; commit {about['commit']}"


if __name__ == "__main__":
    main()
