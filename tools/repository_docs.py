"""Links out of docs/ for the site (a hook of mkdocs): what they lead to becomes part of it, so that it stands alone.

Markdown elsewhere in the repository becomes a page, code a page that shows it, other files are copied.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "repository"
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
_CODE = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".sh": "bash",
    ".toml": "toml",
    ".service": "ini",
    ".txt": "text",
    "": "text",
}
_UNLISTED = "---\nsearch:\n  exclude: true\n---\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the pages link to, and what that links to in its turn."""
    pending = [(f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()]
    seen: set[str] = set()
    while pending:
        for target in _outside(*pending.pop()):
            if target not in seen and (ROOT / target).is_file():
                seen.add(target)
                files.append(_file(target, config))
                if target.endswith(".md"):
                    pending.append((target, (ROOT / target).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links between pages to where those are in the site."""
    here = page.file.src_uri
    source = here.removeprefix(f"{FOLDER}/") if here.startswith(f"{FOLDER}/") else f"docs/{here}"
    if _kind(source.removesuffix(".md")) != "page" and here.startswith(f"{FOLDER}/") and not (ROOT / source).exists():
        return markdown  # shown code: nothing in it is a link

    def led(match: re.Match[str]) -> str:
        target = _resolved(source, match[1])
        if (ROOT / target).is_dir() or not (ROOT / target).exists():
            return match[1]  # mkdocs says so if it leads nowhere
        return posixpath.relpath(_uri(target), posixpath.dirname(here) or ".")

    return _LINK.sub(led, markdown)


def _outside(source: str, text: str) -> Iterator[str]:
    """Yield the files outside of docs/ that a page links to."""
    for match in _LINK.finditer(text):
        target = _resolved(source, match[1])
        if not target.startswith(("docs/", "..")):
            yield target


def _resolved(source: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _uri(target: str) -> str:
    """Return where a file of the repository is among the sources of the site."""
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    return f"{FOLDER}/{target}" + (".md" if _kind(target) == "code" else "")


def _kind(target: str) -> str:
    suffix = posixpath.splitext(target)[1]
    return "page" if suffix == ".md" else "code" if suffix in _CODE else "copy"


def _file(target: str, config: MkDocsConfig) -> File:
    level = InclusionLevel.NOT_IN_NAV
    if _kind(target) != "code":
        return File.generated(config, _uri(target), abs_src_path=str(ROOT / target), inclusion=level)
    text = (ROOT / target).read_text(encoding="utf-8")
    language = _CODE[posixpath.splitext(target)[1]]
    shown = f"{_UNLISTED}\n# `{target}`\n\n````{language}\n{text}````\n"
    return File.generated(config, _uri(target), content=shown, inclusion=level)
