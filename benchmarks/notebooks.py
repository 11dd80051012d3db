"""Run the notebooks of examples/ from the top and keep their outputs in them.

    python benchmarks/notebooks.py
    python benchmarks/notebooks.py --check      # run, write nothing: fails where a cell fails

A cell's output is what it prints and the value of its last line, as Jupyter shows them. No Jupyter is needed: cells are
plain Python, run one after the other in one namespace, in an empty folder.
"""

import argparse
import ast
import io
import json
import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from environment import ROOT

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="run only, write nothing")
    options = parser.parse_args()
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run(notebook, path.name)
            os.chdir(ROOT)
        if not options.check:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {sum(cell['cell_type'] == 'code' for cell in notebook['cells'])} cells")


def run(notebook: dict[str, Any], name: str) -> None:
    """Run the cells and put their outputs in the place of those that are there."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = outputs("".join(cell["source"]), f"{name}, cell {count}", names, count)


def outputs(source: str, place: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run a cell; return what Jupyter would keep of it, but for what goes to stderr."""
    tree = ast.parse(source, place)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed), redirect_stderr(io.StringIO()):
        exec(compile(tree, place, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), place, "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        shown = {"text/plain": lines(repr(value))}
        found.append({"data": shown, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return found


def lines(text: str) -> list[str]:
    """Return a text as notebooks hold it."""
    return text.splitlines(keepends=True)


if __name__ == "__main__":
    main()
