"""The page at `/`: one file, no script or style but its own."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from fastapi import Response

_SCRIPTS = ("asking", "decision", "typing", "attack", "start")


async def playground() -> Response:
    """Show the page to try the model."""
    page, policy = _page()
    return Response(page, media_type="text/html; charset=utf-8", headers={"Content-Security-Policy": policy})


@cache
def _page() -> tuple[str, str]:
    """Return the page and what it may do: run its own script, and ask this server."""
    own = files("rsmi.app.server").joinpath("page")
    look = files("rsmi.report").joinpath("page.css").read_text("utf-8")  # the same as the report's
    style = look + own.joinpath("style.css").read_text("utf-8")
    parts = "".join(own.joinpath(f"{name}.js").read_text("utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{parts}}})();\n'
    frame = own.joinpath("frame.html").read_text("utf-8")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return frame.replace("/*style*/", style).replace("/*script*/", script), policy


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
