from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import rsmi

ROOT = Path(rsmi.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
FORBIDDEN = [
    r"pickle\.loads?\(",
    r"torch\.load\(",
    r"trust_remote_code\s*=\s*True",
    r"torch\.manual_seed",
    r"np\.random\.(?!get_state|set_state)",
    r"(?<![\w.])random\.(?!getstate|setstate|fork_rng)[a-z]+\(",
    r"(?<![\w.])print\(",
    r"except\s*:",
    r"(?<!_)\beval\(\s*['\"]",
    r"\bexec\(",
    r"^\s*assert\b",
]


def test_the_package_is_looked_at():
    assert len(FILES) > 30


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_longer_than_300_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


def test_no_file_is_named_after_nothing():
    assert not {"utils.py", "helpers.py", "common.py", "misc.py"} & {path.name for path in FILES}


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_no_file_holds_a_forbidden_call(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(_code(path), 1)
        if re.search(pattern, line)
    ]
    assert found == []


def _code(path):
    """The lines of a file, those of docstrings blanked."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for number in range(node.lineno - 1, node.end_lineno):
                lines[number] = ""
    return lines
