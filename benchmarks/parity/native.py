r"""Run rsmi's own attack on the inputs of oracle.py and write what it did in the same format.

    python benchmarks/parity/native.py --attack pwws --data ag_news --num 100 --victim runs/ag --max-length 96 \
        --out native.jsonl

Inputs run side by side, so the `seconds` of one are its share, by queries, of the whole run. Thresholds of the sentence
encoder are TextAttack's, not the calibrated ones, since the oracle is given the same encoder. Successes are not asked
about again on fresh draws, which TextAttack does not do either.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from oracle import Answers, Clock, cut, rounded

from rsmi import RsmiClassifier, RsmiConfig, load_data
from rsmi.attacks.bae import BAE
from rsmi.attacks.base import TOGETHER, Attack
from rsmi.attacks.pwws import PWWS
from rsmi.attacks.textfooler import TextFooler
from rsmi.records import AttackRecord, TextInput
from rsmi.resources.masked_lm import MaskedLM
from rsmi.resources.sentence import SentenceEncoder
from rsmi.resources.vectors import WordVectors

USE_ANGULAR, USE_COSINE = 0.840845057, 0.936338023  # of the stock recipes
OUTCOMES = {"succeeded": "Successful", "failed": "Failed", "skipped": "Skipped"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attack", choices=["bae", "pwws", "textfooler"], required=True)
    parser.add_argument("--data", required=True, help="a file, or a data set of RSMI_DATA such as ag_news")
    parser.add_argument("--split", default="test")
    parser.add_argument("--num", type=int, required=True, help="inputs, sampled with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-words", type=int, help="cut texts to so many words between spaces first")
    parser.add_argument("--victim", type=Path, required=True, help="folder of a fine-tuned classifier")
    parser.add_argument("--max-length", type=int, required=True, help="tokens the victim reads")
    parser.add_argument("--round-logits", type=int, help="decimals of the victim's logits, as in oracle.py")
    parser.add_argument("--same-tokens", action="store_true", help="answer equal tokens equally, as in oracle.py")
    parser.add_argument("--variant", default="plain", help="plain, or `own` for the settings saved with the classifier")
    parser.add_argument("--backend", default="torch", help="how the victim is run: torch, int8 or compile")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--together", type=int, default=TOGETHER)
    parser.add_argument("--part", default="0/1", help="attack inputs i, i + n, i + 2n, ... for i/n")
    parser.add_argument("--vectors", type=Path, help="npz with `words` and `vectors`, for textfooler")
    parser.add_argument("--masked-lm", type=Path, help="folder of a BertForMaskedLM, for bae")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = load_data(options.data, options.split).take(options.num, options.seed)
    texts = [cut(text, options.max_words) for text in data.texts]
    clock = Clock()
    attack = made(options, clock)
    plain = RsmiConfig.variant("plain", max_length=options.max_length)
    config = None if options.variant == "own" else plain
    target = RsmiClassifier.from_pretrained(options.victim, config, seed=0, progress=False, backend=options.backend)
    rounded(target.engine().loaded.encoder.model, options.round_logits)
    if options.same_tokens:
        answer_alike(target)
    target.query = clock.timed("victim", target.query)  # type: ignore[method-assign]
    target.query(texts[:4])  # what is set up at the first call is not part of the attack
    clock.restart()
    first, parts = map(int, options.part.split("/"))
    places = range(first, len(texts), parts)
    run = attack.run(target, texts, data.labels, together=options.together, only=places)
    records: dict[int, AttackRecord] = clock.timed("total", lambda: dict(run))()
    times, queries = clock.split(), sum(record.queries for record in records.values())
    lines = [
        json.dumps({"index": place, **line(records[place], times, queries)}, ensure_ascii=False) + "\n"
        for place in places
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("".join(lines), encoding="utf-8")


def answer_alike(target: RsmiClassifier) -> None:
    """Let a classifier answer from memory what it cannot tell apart; see `Answers`."""
    known, ask = Answers(), target.query

    def query(texts: Sequence[TextInput], draw: int = 0) -> Any:
        rows = [row.ids for row in target.engine().encode(list(texts))]
        return np.array(known(texts, rows, ask))

    target.query = query  # type: ignore[method-assign]


def made(options: argparse.Namespace, clock: Clock) -> Attack:
    """Return the attack with the oracle's resources, their calls timed."""
    if options.attack == "pwws":
        return PWWS(fresh_draws=0)
    encoder = SentenceEncoder.open()
    timed = type("Timed", (), {"name": encoder.name, "__call__": staticmethod(clock.timed("encoder", encoder))})()
    if options.attack == "textfooler":
        vectors = WordVectors.open(options.vectors)
        return TextFooler(vectors=vectors, encoder=timed, min_similarity=USE_ANGULAR, fresh_draws=0)
    model = MaskedLM.open(str(options.masked_lm))
    model.fill = clock.timed("masked_lm", model.fill)  # type: ignore[method-assign]
    return BAE(masked_lm=model, encoder=timed, min_similarity=USE_COSINE, fresh_draws=0)


def line(record: AttackRecord, times: dict[str, dict[str, float]], queries: int) -> dict[str, Any]:
    """Return a record in the oracle's words."""
    share = record.queries / queries
    return {
        "label": record.label,
        "outcome": OUTCOMES[record.outcome],
        "original": record.original,
        "final": record.adversarial,
        "queries": record.queries,
        "initial_score": 1 - record.gold_before,
        "final_score": 1 - record.gold_after,
        "num_words": record.num_words,
        "words_changed": record.words_changed,
        **{kind: {name: value * share for name, value in spent.items()} for kind, spent in times.items()},
    }


if __name__ == "__main__":
    main()
