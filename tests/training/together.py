"""Run by `test_distributed.py`, alone or in two processes: trains and writes down what happened in every step."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

from rsmi import RsmiClassifier
from rsmi.config import RsmiConfig, TrainConfig
from rsmi.method.encoder import Encoder
from rsmi.method.noise import NoisePlan
from rsmi.method.tokens import collate, mask_token_id
from rsmi.training.objective import Step
from rsmi.training.objective_rsmi import RsmiObjective
from rsmi.training.processes import whole_weights
from rsmi.training.trainer import ObjectiveTrainer
from tiny import some_texts, tiny
from toy import LABELS, SYNONYMS, TEXTS

RANK = int(os.environ.get("RANK", "0"))
NUM_TEXTS = 45  # 6 updates of 8 an epoch, the last one of 5: one place stays empty in two processes


@dataclass(frozen=True)
class Scenario:
    """One run: what is trained, and how."""

    name: str
    family: str = "bert"
    method: str = "rsmi"
    noise_std: float = 0.0
    micro_batch_size: int | None = None
    gradient_checkpointing: bool = False
    seed: int | None = 0


SCENARIOS = (
    Scenario("rsmi"),
    Scenario("rsmi t5", family="t5"),
    Scenario("rsmi in parts", micro_batch_size=2),
    Scenario("rsmi checkpointed", gradient_checkpointing=True),
    Scenario("finetune", method="finetune"),
    Scenario("freelb", method="freelb"),
    Scenario("safer", method="safer"),
    Scenario("noise", noise_std=0.5),
    Scenario("noise again", noise_std=0.5),
    Scenario("infobert", method="infobert"),
    Scenario("no seed", noise_std=0.5, seed=None),
)


def watch(steps: list[dict[str, Any]]) -> None:
    """Note the loss, the texts, the masked ids and the key of every training step."""
    original_step, original_logits = ObjectiveTrainer.training_step, Encoder.logits
    seen: list[list[list[int]]] = []

    def logits(self: Encoder, batch: Any, shift: Any = None, model: Any = None) -> torch.Tensor:
        if model is not None:  # the pass whose loss trains the model
            seen.append([ids[:length] for ids, length in zip(batch.input_ids.tolist(), batch.lengths, strict=True)])
        return original_logits(self, batch, shift, model)

    def training_step(self: ObjectiveTrainer, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        seen.clear()
        loss = original_step(self, model, inputs, *args, **kwargs)
        steps.append(
            {
                "update": self.state.global_step,
                "places": inputs["places"].tolist(),
                "ids": seen[-1],
                "loss": loss.item(),
                "key": self._step_key,
            }
        )
        return loss

    ObjectiveTrainer.training_step, Encoder.logits = training_step, logits  # type: ignore[method-assign]


def sharded_step(family: str) -> dict[str, Any]:
    """One RSMI step of a tiny model whose weights are spread over the processes (FSDP2), and of a whole one."""
    losses, gradients, weights = [], [], {}
    for spread in (False, True):
        own = tiny(family, num_layers=2, dropout=0.0)
        own.model.train()
        weights = weights or {name: value.clone() for name, value in own.model.state_dict().items()}
        if spread:
            mesh = init_device_mesh("cpu", (2,))
            for layer in own.encoder.layers:
                fully_shard(layer.module, mesh=mesh)
            fully_shard(own.model, mesh=mesh)
        objective = RsmiObjective(
            replace(own.encoder, stages=None),  # as `preparation.train` does
            NoisePlan((0, 1), 0.3),
            "gradient",
            1,
            mask_token_id(own.tokenizer),
            1,
            1.0,
            batch_size=4,
        )
        batch = collate(own.rows(some_texts(4)), own.tokenizer.pad_token_id)
        with ExitStack() as stack:
            gold = torch.tensor([0, 1, 0, 1])
            loss = objective.loss(Step(own.model, batch, gold, 5, cross_entropy, stack, lambda loss: loss.backward()))
            loss.backward()
        losses.append(loss.item())
        named = [(name, p.grad) for name, p in own.model.named_parameters() if p.grad is not None]
        gradients.append({name: grad.full_tensor() if spread else grad for name, grad in named})
    whole = whole_weights(own.model)
    return {
        "losses": losses,
        "spread": any(isinstance(p, DTensor) for p in own.model.parameters()),
        "names": [sorted(own) for own in gradients],
        "furthest": max((grad - gradients[1][name]).abs().max().item() for name, grad in gradients[0].items()),
        "whole": sorted(whole) == sorted(weights) and all(torch.equal(value, weights[n]) for n, value in whole.items()),
    }


def main(bases: dict[str, str], out: Path) -> None:
    """Run every scenario and write one file a process."""
    steps: list[dict[str, Any]] = []
    watch(steps)
    records = {}
    for scenario in SCENARIOS:
        steps.clear()
        safer = scenario.method == "safer"
        config = RsmiConfig(noise_std=scenario.noise_std, noise_layers=2, num_masks=1, num_candidates=3, max_length=32)
        classifier = RsmiClassifier(
            bases[scenario.family],
            config.as_variant("safer") if safer else config,
            TrainConfig(
                method=scenario.method,  # type: ignore[arg-type]
                epochs=2,
                learning_rate=1e-3,
                batch_size=8,
                embedding_step=2.0,
                ascent_start=0.0,  # each process draws FreeLB's random start for its own texts
                micro_batch_size=scenario.micro_batch_size,
                gradient_checkpointing=scenario.gradient_checkpointing,
                dev_fraction=0.1,
            ),
            synonyms=SYNONYMS if safer else None,
            seed=scenario.seed,
            device="cpu",
            progress=False,
        )
        texts = [f"{text} {' the' * (i % 5)}" for i, text in enumerate(TEXTS)]  # of several lengths
        dev = (texts[NUM_TEXTS:], LABELS[NUM_TEXTS:])
        classifier.fit(texts[:NUM_TEXTS], LABELS[:NUM_TEXTS], dev=dev)
        weights = torch.cat([p.detach().flatten() for p in classifier._loaded.encoder.model.parameters()])
        records[scenario.name] = {
            "steps": list(steps),
            "history": classifier.training_["history"],
            "weights": [weights.double().sum().item(), weights.double().square().sum().item()],
            "scenario": asdict(scenario),
        }
        classifier.save_pretrained(out / scenario.name.replace(" ", "-"))
    if "RANK" in os.environ:
        records["sharded"] = {family: sharded_step(family) for family in ("roberta", "t5")}
    (out / f"rank-{RANK}.json").write_text(json.dumps(records))
    if torch.distributed.is_initialized():  # not left to the end of the process, where it races with torch's threads
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
