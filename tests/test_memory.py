"""Freed memory is kept for the next batch where nobody has said otherwise, and goes back now and then."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from rsmi import memory
from rsmi.app import cli


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What the C library is told, instead of telling it."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(memory, "_mallopt", lambda name, value: found.append((name, value)) or 1)
    monkeypatch.setattr(memory, "_malloc_trim", lambda _pad: 1)
    for name in memory._OWN_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_c_library_is_told_to_keep_what_it_can(told: list[tuple[int, int]]) -> None:
    memory.keep_free_memory()
    assert dict(told) == {-3: 2**25, -1: 2**31 - 1}


@pytest.mark.parametrize("name", memory._OWN_SETTINGS)
def test_settings_of_the_users_own_are_left_alone(
    name: str, told: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "")
    memory.keep_free_memory()
    assert told == []


def test_commands_keep_memory_and_the_server_does_not(told: list[tuple[int, int]]) -> None:
    runner = CliRunner()
    assert runner.invoke(cli.app, ["serve", "--help"]).exit_code == 0
    assert told == []
    assert runner.invoke(cli.app, ["resources", "--help"]).exit_code == 0
    assert told


_CHURN = """
import ctypes, resource, sys
from rsmi.memory import keep_free_memory
if sys.argv[1] == "keep":
    keep_free_memory()
C = ctypes.CDLL(None)
C.malloc.restype, C.malloc.argtypes, C.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def once():
    blocks = [C.malloc(4 << 20) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, 4 << 20)
    for block in reversed(blocks):
        C.free(block)
once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    once()
sys.stdout.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))
"""


@pytest.mark.skipif(
    sys.platform != "linux" or memory._mallopt is None or memory._malloc_trim is None, reason="not glibc on Linux"
)
def test_pages_that_are_kept_are_not_fetched_again() -> None:
    pages = {}
    for way in ("keep", "leave"):
        own = {name: value for name, value in os.environ.items() if name not in memory._OWN_SETTINGS}
        done = subprocess.run([sys.executable, "-c", _CHURN, way], env=own, capture_output=True, text=True, check=True)
        pages[way] = int(done.stdout)
    assert pages["keep"] < 2000 < 40_000 < pages["leave"], pages  # 20 x 16 MiB are 81,920 pages
