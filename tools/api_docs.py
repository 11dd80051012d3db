"""Write docs/reference/api/: a page for each part of the library, filled from its docstrings when the site is built."""

import ast
from pathlib import Path

import rsmi

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "api"
SOURCE = Path(rsmi.__file__).parent.parent  # read, not imported: no part of the site waits for torch

# page -> title, modules; a package stands for all of its modules
PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "classifier": ("The classifier", ("rsmi.classifier", "rsmi.estimator", "rsmi.pipeline", "rsmi.opening")),
    "config": ("Settings", ("rsmi.config", "rsmi.presets", "rsmi.settings")),
    "records": ("Results and errors", ("rsmi.records", "rsmi.defense", "rsmi.errors", "rsmi.seeds")),
    "data": ("Data", ("rsmi.data",)),
    "attacks": ("Attacks", ("rsmi.attacks",)),
    "targets": ("Models that are not ours", ("rsmi.targets",)),
    "evaluation": ("Evaluation", ("rsmi.evaluation",)),
    "report": ("Reports", ("rsmi.report",)),
    "certify": ("Certificates", ("rsmi.certify",)),
    "guard": ("Guards", ("rsmi.guard",)),
    "scoring": ("Scoring of files", ("rsmi.scoring", "rsmi.workers", "rsmi.writing", "rsmi.memory")),
    "export": ("Export to ONNX", ("rsmi.export",)),
    "method": ("The method", ("rsmi.method",)),
    "training": ("Training", ("rsmi.training",)),
    "resources": ("Lexicons and models of attacks", ("rsmi.resources",)),
}
ELSEWHERE = ("rsmi.__main__", "rsmi.app", "rsmi.experiments")
"""The command line, the server and `rsmi reproduce`: pages of their own say how to use them."""

# whoever searches a word wants what explains it before what names it
_FRONT = "---\nsearch:\n  boost: 0.3\n---\n\n"
_INDEX = """# The public names of `rsmi`

`from rsmi import ...`; each is imported when it is first used, so that `import rsmi` takes no time. What stands on
the other pages of this section is public, too: every name without an underscore in front.

| Name | |
|---|---|
"""


def pages() -> dict[str, str]:
    """Return the Markdown of each page by its name."""
    made = {name: _part(title, modules) for name, (title, modules) in PARTS.items()}
    return {name: _FRONT + page for name, page in {"index": _index(), **made}.items()}


def _index() -> str:
    lines = []
    for name, home in rsmi._HOMES.items():
        module, summary = _defined(name, home)
        page = next(
            page for page, (_, own) in PARTS.items() if any(f"{module}.".startswith(f"{part}.") for part in own)
        )
        lines.append(f"| [`{name}`]({page}.md#{module}.{name}) | {summary} |\n")
    return _INDEX + "".join(lines)


def _defined(name: str, home: str) -> tuple[str, str]:
    """Return the module that defines a public name, and the first sentence about it."""
    for path in sorted(_path(home).parent.glob("*.py") if _is_package(home) else [_path(home)]):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
                return module, (ast.get_docstring(node) or "").partition("\n")[0]
    raise ValueError(f"expected {name} in {home}, found it nowhere; see rsmi._HOMES")


def _part(title: str, modules: tuple[str, ...]) -> str:
    lines = [f"# {title}", ""]
    for name in modules:
        lines += [f"::: {name}"]
        lines += ["    options:", "      show_submodules: true", ""] if _is_package(name) else [""]
    return "\n".join(lines)


def _path(module: str) -> Path:
    folder = SOURCE.joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _is_package(module: str) -> bool:
    return _path(module).name == "__init__.py"


if __name__ == "__main__":
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, page in pages().items():
        (TARGET / f"{name}.md").write_text(page, encoding="utf-8")
