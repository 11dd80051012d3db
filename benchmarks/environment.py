"""What a benchmark's result must say about where it was measured."""

import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("rsmi", "torch", "transformers", "tokenizers", "numpy")


def environment() -> dict[str, Any]:
    """Return versions, hardware and commit."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] or ["cpu"],
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY"),
        "commit": commit.stdout.strip() or "unknown",
    }


def save(out: Path, result: dict[str, Any], page: str) -> None:
    """Write a result as OUT.json and OUT.md, and show it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(page, encoding="utf-8")
    print(page)
