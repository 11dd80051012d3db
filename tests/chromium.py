"""Debian's Chromium, driven through a pipe by its own protocol: sizes, colour schemes, clicks and screenshots."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe")
# The browser reads the protocol from file 3 and answers on file 4.
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)

_OVERFLOWING = """
    [...document.querySelectorAll("body *")].filter((own) => {
        const scrolls = own.closest(".scroll, pre, .skip, svg");
        return !scrolls && own.getClientRects().length && own.getBoundingClientRect().right > WIDTH + 0.5;
    }).map((own) => own.outerHTML.slice(0, 80))
"""
_CONTRASTS = """
    (() => {
        const parse = (colour) => colour.match(/[0-9.]+/g).map(Number);
        const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const ground = (own) => {
            for (let at = own; at; at = at.parentElement) {
                const colour = parse(getComputedStyle(at).backgroundColor);
                if (colour.length === 3 || colour[3] === 1) return colour;
            }
            return [255, 255, 255];
        };
        const ratio = (own) => {
            const [one, other] = [parse(getComputedStyle(own).color), ground(own)].map(light).sort((a, b) => b - a);
            return (one + 0.05) / (other + 0.05);
        };
        return Object.fromEntries(NAMES.map((name) => [name, ratio(document.querySelector(name))]));
    })()
"""


class Browser:
    """One page in a headless Chromium; remembers what it complained about and what it asked the network for."""

    def __init__(self) -> None:
        if CHROMIUM is None:
            raise RuntimeError("expected chromium, got none; run make browser")
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        words = [CHROMIUM, *_FLAGS, f"--user-data-dir={self._folder.name}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out), *words],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._left, self._number, self._session = b"", 0, None
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{part}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self._ask("Browser.close")
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()

    def open(self, path: Path, after: str = "", *, width: int = 1280, dark: bool = False) -> None:
        """Show a file in a window of this width (a phone below 600), `after` being a query or hash."""
        self.visit(path.resolve().as_uri() + after, width=width, dark=dark)

    def visit(self, address: str, *, width: int = 1280, dark: bool = False) -> None:
        """Show the page at an address."""
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._ask("Page.navigate", url="about:blank")
        self._ask("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && location.protocol !== 'about:'")

    def type(self, text: str) -> None:
        """Type into what has the focus, letter by letter."""
        for letter in text:
            self._ask("Input.dispatchKeyEvent", type="char", text=letter)

    def press(self, key: str) -> None:
        """Press and release a key, such as Tab, Enter or Space."""
        codes = {"Tab": 9, "Enter": 13, "Space": 32}
        text = {"Enter": "\r", "Space": " "}.get(key, "")
        name = " " if key == "Space" else key
        about = {"key": name, "code": key, "windowsVirtualKeyCode": codes[key]}
        self._ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **about)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **about)

    def run(self, code: str) -> Any:
        """Return what an expression of JavaScript gives."""
        answer = self._ask("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{code}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, code: str, seconds: float = 20.0) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.run(code):
            if time.monotonic() > end:
                raise TimeoutError(code)
            time.sleep(0.05)

    def overflowing(self, width: int) -> list[str]:
        """Return the elements that reach beyond a window of this width."""
        found: list[str] = self.run(_OVERFLOWING.replace("WIDTH", str(width)))
        return found

    def contrasts(self, names: Sequence[str]) -> dict[str, float]:
        """Return the contrast of text and ground for the first element of each selector; 4.5 can be read."""
        found: dict[str, float] = self.run(_CONTRASTS.replace("NAMES", json.dumps(names)))
        return found

    def screenshot(self, path: Path, top: int | None = None, height: int = 1600) -> None:
        """Save a picture: of the window, or of the page from `top` on."""
        more: dict[str, Any] = {}
        if top is not None:
            width = self.run("innerWidth")
            more = {
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": top, "width": width, "height": height, "scale": 1},
            }
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", **more)["data"]))

    def print_pages(self) -> bytes:
        """Return the page as a PDF."""
        return base64.b64decode(self._ask("Page.printToPDF", printBackground=True)["data"])

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            more = os.read(self._in, 1 << 20)
            if not more:
                raise RuntimeError("chromium has ended")
            self._left += more
        message, _, self._left = self._left.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _note(self, event: dict[str, Any]) -> None:
        values = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(values["exceptionDetails"]))
        elif event.get("method") == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.complaints.append(str(values["args"]))
        elif event.get("method") == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{values['entry']['text']} {values['entry'].get('url', '')}")
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
