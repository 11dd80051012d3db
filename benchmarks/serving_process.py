"""`rsmi serve` as a process of its own, for the benchmarks of the server."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil

_PATIENCE = 300.0  # seconds for loading the model, and for stopping


class ServerProcess:
    """A server on loopback, ready when the block begins; `address` is where, `lines` what it has logged."""

    def __init__(self, model: Path, *options: str) -> None:
        command = [sys.executable, "-m", "rsmi", "serve", str(model), "--port", "0", *options]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines: list[dict[str, Any]] = []
        self.other: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.address = ""

    def __enter__(self) -> "ServerProcess":
        self.address = f"http://127.0.0.1:{self.event('listening')['port']}"
        self.event("ready")
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if line.startswith("{"):
                self.lines.append(json.loads(line))
            else:
                self.other.append(line)

    def event(self, name: str) -> dict[str, Any]:
        """Wait for a line of the log."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            found = next((line for line in list(self.lines) if line["event"] == name), None)
            if found is not None:
                return found
            if self._process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.02)
        raise RuntimeError(f"the server did not say {name!r}: {self.other} {self.lines[-3:]}")

    def stop(self) -> int:
        """Send SIGTERM, wait until it is gone and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(_PATIENCE)
        self._reader.join(10)
        return code

    @property
    def resident_mib(self) -> float:
        """Memory it holds now."""
        return psutil.Process(self._process.pid).memory_info().rss / 2**20

    def metric(self, name: str) -> float:
        """Return a number of `/metrics`, all labels added up."""
        with urllib.request.urlopen(f"{self.address}/metrics", timeout=30) as answer:
            page = answer.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", page, re.MULTILINE))
