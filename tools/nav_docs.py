"""Navigation of the site (a hook of mkdocs): an entry `folder/*` stands for its pages that are named nowhere else."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out what the stars stand for, in the order of the file names."""
    docs = Path(config.docs_dir)
    named = set(_entries(config.nav))
    config.nav = _written(config.nav, docs, named)
    return config


def _entries(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [entry for own in (nav.values() if isinstance(nav, dict) else nav) for entry in _entries(own)]


def _written(nav: Any, docs: Path, named: set[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _written(own, docs, named) for title, own in nav.items()}
    if not isinstance(nav, list):
        return nav
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, str) and entry.endswith("*"):
            pages = sorted(path.relative_to(docs).as_posix() for path in docs.glob(f"{entry}.md"))
            found += [page for page in pages if page not in named]
        else:
            found.append(_written(entry, docs, named))
    return found
