"""This machine -> what a step's result must say about where it was found."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import torch

from rsmi.method.products import onednn_is_faster


def machine() -> dict[str, Any]:
    """Return processor, threads, devices, and the library that multiplies matrices in float32."""
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "devices": devices or ["cpu"],
        "products": "oneDNN" if onednn_is_faster() and torch.backends.mkldnn.enabled else "PyTorch's default",
    }


def _processor() -> str:
    told: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return str(told.get("cpu_name") or platform.processor() or platform.machine())
