"""What a benchmark's result must say about where it was measured."""

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
