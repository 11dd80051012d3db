"""The page at `/`: one file, no script or style but its own."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from fastapi import Response

from rsmi.report.markup import digest, page_script

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
    script = page_script(*(own.joinpath(f"{name}.js").read_text("utf-8") for name in _SCRIPTS))
    frame = own.joinpath("frame.html").read_text("utf-8")
    policy = (
        f"default-src 'none'; style-src '{digest(style)}'; script-src '{digest(script)}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return frame.replace("/*style*/", style).replace("/*script*/", script), policy
