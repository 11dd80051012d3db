"""A training of the masked-LM head <-> one file, so that a run that was stopped can go on; no pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

_STATE: Final = ("step", "exp_avg", "exp_avg_sq")  # of AdamW


class Snapshot:
    """Saves parameters and the optimizer's state every so many steps.

    Args:
        path: The file.
        settings: What the run depends on; a file of other settings is ignored.
        every: Steps between two saves.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], every: int) -> None:
        self._path, self._every = path, every
        self._settings = json.dumps(settings, sort_keys=True)

    def load(self, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> int:
        """Restore the last save, if there is one of the same settings, and return how many steps were done."""
        try:
            with safe_open(self._path, framework="pt") as file:
                facts = file.metadata() or {}
                if facts.get("settings") != self._settings:
                    return 0
                tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                done = int(facts["done"])
        except (OSError, SafetensorError, KeyError, ValueError):  # none, or damaged: begin anew
            return 0
        state = {}
        with torch.no_grad():
            for place, (name, parameter) in enumerate(parameters.items()):
                parameter.copy_(tensors[name])
                state[place] = {part: tensors[f"{name}:{part}"] for part in _STATE}
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
        return done

    def save(self, done: int, parameters: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> None:
        """Save if it is time to."""
        if done % self._every:
            return
        tensors = {name: parameter.detach().contiguous() for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            tensors |= {f"{name}:{part}": optimizer.state[parameter][part].contiguous() for part in _STATE}
        partial = self._path.with_name(f"{self._path.name}.part")
        save_file(tensors, partial, {"settings": self._settings, "done": str(done)})
        os.replace(partial, self._path)

    def remove(self) -> None:
        """Remove the file of a finished run."""
        self._path.unlink(missing_ok=True)
