r"""Run a recipe of TextAttack, unchanged but for the resources handed to it, and append what it did to a JSONL file.

Inputs that are in the file already are not attacked again, so an interrupted call goes on where it stopped:

    PYTHONPATH=src .venv-textattack/bin/python benchmarks/parity/oracle.py --attack pwws --data ag_news --num 100 \
        --victim runs/ag --max-length 96 --padding dynamic --out oracle.jsonl

`seconds` (and `cpu_seconds`, the process's own) of an input are split into `victim` (calls of the model, tokenisation
included), `encoder` (calls of the sentence encoder), `masked_lm` (its tokenisation and forward passes), and `outside`:
all the rest of `total`.
"""

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from inject import NEEDS, add_options, guest_resources

from rsmi import RsmiClassifier
from rsmi.attacks.textattack_offline import GuestResources, load_textattack
from rsmi.attacks.textattack_wrapper import TextAttackVictim, as_input, recipe
from rsmi.data import load_data
from rsmi.records import TextInput

sys.path.append(str(Path(__file__).resolve().parent.parent))
from naive import AuthorsTarget, Naive

MODELS = ("victim", "encoder", "masked_lm")
DEFAULTS = (("kind", "transformers"), ("round_logits", None), ("same_tokens", False))
"""Options that were added when files without them were there already."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attack", choices=sorted(NEEDS), required=True)
    parser.add_argument("--data", required=True, help="a file, or a data set of RSMI_DATA such as ag_news")
    parser.add_argument("--split", default="test")
    parser.add_argument("--num", type=int, required=True, help="inputs, sampled with --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-words", type=int, help="cut texts to so many words between spaces first")
    parser.add_argument("--columns", nargs=2, default=[], help="names of the two texts of a pair")
    parser.add_argument("--victim", type=Path, required=True, help="folder of a fine-tuned classifier")
    parser.add_argument("--max-length", type=int, required=True, help="tokens the victim reads")
    parser.add_argument(
        "--as",
        dest="kind",
        choices=["transformers", "rsmi", "authors"],
        default="transformers",
        help="what answers: TextAttack's own wrapper of the model, our classifier, or the authors' algorithm",
    )
    parser.add_argument("--padding", choices=["dynamic", "max"], default="max", help="max is TextAttack's own")
    parser.add_argument(
        "--special-tokens",
        choices=["read", "split"],
        default="read",
        help="whether [UNK] in a text is the special token (as in TextAttack) or five characters (as in rsmi)",
    )
    parser.add_argument("--round-logits", type=int, help="decimals of the victim's logits: see `rounded`")
    parser.add_argument("--same-tokens", action="store_true", help="answer equal tokens equally: see `Answers`")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    done = opened(options)
    data = load_data(options.data, options.split).take(options.num, options.seed)
    clock = Clock()
    resources = timed_resources(guest_resources(options, options.attack), clock)
    textattack = load_textattack(resources.nltk_data)
    wrapper, numbers = victim(options, textattack, clock) if options.kind == "transformers" else ours(options, clock)
    attack = recipe(options.attack, wrapper, resources, batch_size=options.batch_size)
    if options.attack == "bae":
        swap = attack.transformation
        swap._encode_text = clock.timed("masked_lm", swap._encode_text)
    for index, (text, label) in enumerate(zip(data.texts, data.labels, strict=True)):
        if index not in done:
            record = attacked(attack, cut(text, options.max_words), numbers[str(label)], tuple(options.columns), clock)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"index": index, "label": label, **record}, ensure_ascii=False) + "\n")


def opened(options: argparse.Namespace) -> set[int]:
    """Return the indices in the file; refuse to go on with a file of other settings."""
    settings = {
        name: str(value)
        for name, value in sorted(vars(options).items())
        if name not in ("out", "cache", "num") and (name, value) not in DEFAULTS
    }
    beside = options.out.with_suffix(".settings.json")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if beside.exists() and json.loads(beside.read_text(encoding="utf-8")) != settings:
        raise SystemExit(f"{options.out} was written with other settings, see {beside}")
    beside.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    lines = options.out.read_text(encoding="utf-8").splitlines(keepends=True) if options.out.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):  # the last run was stopped while writing
        options.out.write_text("".join(whole), encoding="utf-8")
    return {json.loads(line)["index"] for line in whole}


class Clock:
    """Time spent inside each model, on the wall and on the processor."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self.restart()

    def restart(self) -> None:
        """Forget all that was measured."""
        self.spent = {name: [0.0, 0.0] for name in ("total", *MODELS)}

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, its time added to `name`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent[name][0] += time.perf_counter() - wall
                self.spent[name][1] += time.process_time() - cpu

        return call

    def split(self) -> dict[str, dict[str, float]]:
        """Return what was measured, with what is left outside the models."""
        both = {}
        for place, kind in enumerate(("seconds", "cpu_seconds")):
            times = {name: spent[place] for name, spent in self.spent.items()}
            times["outside"] = times["total"] - sum(times[name] for name in MODELS)
            both[kind] = {name: round(value, 6) for name, value in times.items()}
        return both


def timed_resources(resources: GuestResources, clock: Clock) -> GuestResources:
    """Return the resources with their models' calls timed."""
    if resources.masked_lm is not None:
        resources.masked_lm.forward = clock.timed("masked_lm", resources.masked_lm.forward)
    if resources.encode is not None:
        resources = replace(resources, encode=clock.timed("encoder", resources.encode))
    return resources


def ours(options: argparse.Namespace, clock: Clock) -> tuple[Any, dict[str, int]]:
    """Return a classifier of ours, or the authors' algorithm on its weights, as TextAttack asks it."""
    classifier = RsmiClassifier.from_pretrained(options.victim, seed=0, progress=False)
    numbers = {str(label): number for number, label in enumerate(classifier.classes_.tolist())}
    target: Any = classifier
    if options.kind == "authors":
        engine = classifier.engine()
        target = AuthorsTarget(classifier, Naive.of(engine.loaded, engine.plan, engine.config, seed=0))
    target.query = clock.timed("victim", target.query)
    return TextAttackVictim(target), numbers


def victim(options: argparse.Namespace, textattack: Any, clock: Clock) -> tuple[Any, dict[str, int]]:
    """Return TextAttack's wrapper of a classifier, with the chosen padding, and the numbers of its classes."""
    padding = {"dynamic": "longest", "max": "max_length"}[options.padding]

    class Wrapper(textattack.models.wrappers.HuggingFaceModelWrapper):  # type: ignore[misc]
        """As TextAttack's own, but for padding and what it reads as special tokens."""

        def __call__(self, text_input_list: list[TextInput]) -> torch.Tensor:
            return call(text_input_list)

    model = transformers.AutoModelForSequenceClassification.from_pretrained(options.victim).eval()
    rounded(model, options.round_logits)
    wrapper = Wrapper(model, transformers.AutoTokenizer.from_pretrained(options.victim))

    def answer(texts: list[TextInput]) -> torch.Tensor:
        inputs = wrapper.tokenizer(
            texts,
            padding=padding,
            max_length=options.max_length,
            truncation=True,
            split_special_tokens=options.special_tokens == "split",
            return_tensors="pt",
        )
        with torch.no_grad():
            return model(**inputs).logits

    def alike(texts: list[TextInput]) -> torch.Tensor:
        split = options.special_tokens == "split"
        read = wrapper.tokenizer(texts, max_length=options.max_length, truncation=True, split_special_tokens=split)
        return torch.tensor(known(texts, read["input_ids"], lambda few: answer(few).tolist()))

    known = Answers()
    call = clock.timed("victim", alike if options.same_tokens else answer)
    return wrapper, dict(model.config.label2id)


class Answers:
    """Remembers what a victim said, by tokens.

    An uncased model cannot tell York from YORK, yet the last bits of its answers depend on the batch around a text, and
    TextAttack takes whichever comes out higher by 1e-7. Answered from memory, such texts tie, and a tie has one
    outcome. Unlike `rounded` it makes no ties between other texts, whose order would be arbitrary in TextAttack.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[int, ...], list[float]] = {}

    def __call__(self, texts: Sequence[TextInput], rows: Sequence[Sequence[int]], ask: Callable[..., Any]) -> Any:
        """Return answers to texts of these tokens; new ones are asked for together."""
        keys = [tuple(row) for row in rows]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self.known}
        if missing:
            self.known.update(zip(missing, ask(list(missing.values())), strict=True))
        return [self.known[key] for key in keys]


def rounded(model: Any, decimals: int | None) -> None:
    """Make the victim a function of the tokens alone: round its logits.

    An uncased model cannot tell York from YORK, yet the last bits of its answers depend on the batch around a text,
    and TextAttack takes whichever comes out higher by 1e-7. Rounded, such texts tie, and a tie has one outcome.
    """
    if decimals is not None:
        model.classifier.register_forward_hook(lambda _module, _args, output: output.round(decimals=decimals))


def cut(text: TextInput, max_words: int | None) -> TextInput:
    """Return the text, or each of a pair, without what follows its first `max_words` words."""
    if max_words is None:
        return text
    if isinstance(text, str):
        return " ".join(text.split()[:max_words])
    return (str(cut(text[0], max_words)), str(cut(text[1], max_words)))


def attacked(attack: Any, text: TextInput, label: int, columns: tuple[str, ...], clock: Clock) -> dict[str, Any]:
    """Attack one input and say what came of it; an input that crashes TextAttack has the outcome Error."""
    clock.restart()
    try:
        result = clock.timed("total", attack.attack)(as_input(text, columns), label)
    except Exception as error:  # the oracle's own bugs are results, too
        logging.exception("TextAttack failed")
        attack.clear_cache()
        return {"outcome": "Error", "original": text, "error": repr(error), **clock.split()}
    before, after = result.original_result, result.perturbed_result
    return {
        "outcome": type(result).__name__.removesuffix("AttackResult"),
        "original": text,
        "final": after.attacked_text.tokenizer_input,
        "queries": result.num_queries,
        "initial_score": float(before.score),
        "final_score": float(after.score),
        "num_words": len(before.attacked_text.words),
        "words_changed": words_changed(before.attacked_text, after.attacked_text),
        **clock.split(),
    }


def words_changed(before: Any, after: Any) -> int:
    """Return how many words differ; where their number changed, the edit distance."""
    same = before.num_words == after.num_words
    return len(before.all_words_diff(after)) if same else before.words_diff_num(after)


if __name__ == "__main__":
    main()
