"""A Ray cluster of this machine that belongs to one test: its processes, and no others, are found and ended."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True)
class Cluster:
    """A running head."""

    address: str
    head: subprocess.Popen[bytes]

    def actors(self) -> list[psutil.Process]:
        """Return the workers that actors run in."""
        return [process for process in _tree(self.head) if _line(process).startswith("ray::_Actor")]


@contextmanager
def ray_cluster(cpus: int = 2) -> Iterator[Cluster]:
    """Start a head with room for `cpus` workers, and end it with everything it started."""
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # not pytest's: names of sockets must be short
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    own = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # by default workers starve on a busy machine
    environ = {**os.environ, **own, "PYTHONPATH": os.pathsep.join(sys.path)}
    options = [f"--port={address.rpartition(':')[2]}", f"--num-cpus={cpus}", f"--temp-dir={folder}"]
    command = [Path(sys.executable).with_name("ray"), "start", "--head", "--block", "--include-dashboard=false"]
    with (Path(folder) / "log").open("wb") as log:
        head = subprocess.Popen([*command, *options], stdout=log, stderr=log, env=environ)
        try:
            _wait_for(address, head, Path(folder) / "log")
            yield Cluster(address, head)
        finally:
            _end(head)
            shutil.rmtree(folder, ignore_errors=True)


def _wait_for(address: str, head: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and head.poll() is None:
        if b"Ray runtime started" in log.read_bytes():
            socket.create_connection((host, int(port)), timeout=10).close()
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def _end(head: subprocess.Popen[bytes]) -> None:
    processes = _tree(head)
    for process in processes:
        process.terminate()
    for process in psutil.wait_procs(processes, timeout=10)[1]:
        process.kill()
    head.wait()


def _tree(head: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        own = psutil.Process(head.pid)
        return [*own.children(recursive=True), own]
    except psutil.NoSuchProcess:
        return []


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
