"""Draw the five arrows of the method from one real prediction: `python tools/figures.py MODEL` -> docs/figures/*.svg.

The committed figures are of the model that `rsmi demo` trains. What each shows is also its `aria-label`, which is the
alternative text in docs/method.md (a test compares the two).
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from rsmi import Prediction, RsmiClassifier
from rsmi.method.engine import Engine
from rsmi.method.masking import sample_positions
from rsmi.method.noise import noisy, row_noise
from rsmi.report.markup import escape
from rsmi.seeds import derive

TARGET = Path(__file__).resolve().parent.parent / "docs" / "figures"
TEXT = "A predictable thriller that grows on you until its unforgettable ending."
SEED = 0
DRAWS = 50  # of the noise that its effect is averaged over
COPIES = 4  # of step two that are shown
ROW = 10  # votes drawn side by side

WIDTH, MARGIN = 440, 16
LETTER = 7.8  # width of a letter of the fixed font, enforced by textLength

# The picture brings its own ground, so that it can be read on any page; both follow the reader's scheme.
STYLE = """
svg{--paper:#fff;--line:#c9ced8;--ink:#1a1d23;--soft:#555d6b;--one:#2563b8;--two:#c2410c;--tint:#e4ecf8;--hide:#1a1d23}
@media (prefers-color-scheme:dark){svg{--paper:#14171c;--line:#454d5a;--ink:#e8eaee;--soft:#a6aebb;--one:#7ab3ff;
--two:#ffab70;--tint:#1f2d42;--hide:#e8eaee}}
text{font:13px ui-monospace,SFMono-Regular,Menlo,"DejaVu Sans Mono",monospace;fill:var(--ink)}
.said{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.soft{fill:var(--soft)}.strong{font-weight:600}
.paper{fill:var(--paper);stroke:var(--line)}.chip{fill:var(--tint);stroke:var(--one)}
.special{fill:none;stroke:var(--soft);stroke-dasharray:3 3}.bar{fill:var(--one)}.top{fill:var(--two)}
.rest{fill:var(--soft);opacity:.55}.hide{fill:var(--hide)}.pool{fill:none;stroke:var(--two)}
.vote1{fill:var(--one);stroke:var(--one)}.vote0{fill:none;stroke:var(--two);stroke-width:2.5}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="folder of an RSMI classifier with masks by gradient, such as runs/demo/rsmi")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, drawing in figures(RsmiClassifier.from_pretrained(options.model, seed=SEED)).items():
        (options.out / f"{name}.svg").write_text(drawing, encoding="utf-8")


def figures(classifier: RsmiClassifier, text: str = TEXT) -> dict[str, str]:
    """Return a picture for each arrow, all of one prediction."""
    (prediction,) = classifier.explain([text])
    engine = classifier.engine()
    return {
        "tokens": tokens_figure(prediction),
        "noise": noise_figure(effect_of_noise(engine, text), engine.plan.layers),
        "saliency": saliency_figure(prediction),
        "masks": masks_figure(prediction, masks_of_step_two(engine, prediction)),
        "votes": votes_figure(prediction),
    }


def effect_of_noise(engine: Engine, text: str) -> list[float]:
    """Return, layer by layer, how far noise moves the states: mean distance over draws / length of the clean states."""
    (row,) = engine.encode([text])
    batch = engine.smoothed.batch([row])
    clean = _states(engine, batch)
    keys = [derive(SEED, "figure", draw) for draw in range(DRAWS)]
    with noisy(engine.loaded.encoder.layers, engine.plan, row_noise(keys, [len(row)] * DRAWS)):
        moved = _states(engine, batch.repeat(DRAWS))
    ratios = [(own - still).norm(dim=(1, 2)) / still.norm() for own, still in zip(moved, clean, strict=True)]
    return [float(ratio.mean()) for ratio in ratios]


def _states(engine: Engine, batch: object) -> list[torch.Tensor]:
    """Return what each layer gives out, noise included."""
    found: list[torch.Tensor] = []
    encoder = engine.loaded.encoder

    def keep(_layer: object, _given: object, output: object) -> None:
        found.append((output[0] if isinstance(output, tuple) else output).detach().clone())

    handles = [layer.module.register_forward_hook(keep) for layer in encoder.layers]
    try:
        with torch.no_grad():
            encoder.logits(batch)
    finally:
        for handle in handles:
            handle.remove()
    return found


def masks_of_step_two(engine: Engine, prediction: Prediction) -> list[tuple[int, ...]]:
    """Return the masks of the first copies of step two, drawn as the prediction drew them."""
    key = derive(engine.key(prediction.text, 0, 0), "second", "masks")
    return sample_positions(prediction.candidates, engine.config.num_masks, COPIES, key)


def tokens_figure(prediction: Prediction) -> str:
    """Tokens as boxes; pieces of one word touch, special tokens are dashed."""
    parts, x, y = [], float(MARGIN), 40.0
    for place, token in enumerate(prediction.tokens):
        wide = len(token.text) * LETTER + 12
        joined = _continues(prediction, place)
        x += 0 if joined or x == MARGIN else 6
        if x + wide > WIDTH - MARGIN:
            x, y = float(MARGIN), y + 36
        kind = "special" if token.sequence < 0 else "chip"
        parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y - 18:.1f}" width="{wide:.1f}" height="26" rx="4"/>')
        parts.append(_fixed(x + 6, y, token.text, "soft" if token.sequence < 0 else ""))
        x += wide
    parts.append(_said(MARGIN, y + 36, "dashed: special tokens, never masked"))
    parts.append(_said(MARGIN, y + 54, "touching boxes: pieces of one word"))
    shown = " ".join(token.text for token in prediction.tokens)
    return _svg(int(y + 70), f"The tokens of the example: {shown}. The first and the last are special.", parts)


def noise_figure(ratios: Sequence[float], noisy_layers: Sequence[int]) -> str:
    """Bars of how far the states are moved after each layer."""
    parts = [_said(MARGIN, 26, "distance from the states without noise, in % of their length")]
    widest = max([*ratios, 1e-9])
    left, room = 86, WIDTH - MARGIN - 86 - 156
    for layer, ratio in enumerate(ratios):
        y = 52 + 28 * layer
        parts.append(_fixed(MARGIN, y, f"layer {layer}"))
        kind = "top" if layer in noisy_layers else "bar"
        long = max(room * ratio / widest, 1)
        parts.append(f'<rect class="{kind}" x="{left}" y="{y - 13}" width="{long:.1f}" height="16" rx="2"/>')
        parts.append(_said(left + long + 8, y, f"{100 * ratio:.0f} %", "ink"))
        if layer in noisy_layers:
            parts.append(_said(WIDTH - MARGIN, y, "noise added here", "soft", anchor="end"))
    numbers = ", ".join(f"{100 * ratio:.0f} % after layer {layer}" for layer, ratio in enumerate(ratios))
    where = ", ".join(str(layer) for layer in noisy_layers)
    label = f"How far noise moves the states of the example: {numbers}. Noise is added after layers {where}."
    return _svg(52 + 28 * len(ratios), label, parts)


def saliency_figure(prediction: Prediction) -> str:
    """Bars of the gradient at each token that may be masked; the candidates in another colour."""
    words = [(i, token) for i, token in enumerate(prediction.tokens) if token.sequence >= 0]
    most = max([token.saliency for _, token in words]) or 1.0
    longest = max(len(token.text) for _, token in words)
    left = MARGIN + longest * LETTER + 12
    room = WIDTH - MARGIN - left - 86
    parts = [_said(MARGIN, 26, "length of the loss gradient at each token")]
    for number, (place, token) in enumerate(words):
        y = 52 + 24 * number
        rank = prediction.candidates.index(place) + 1 if place in prediction.candidates else 0
        parts.append(_fixed(left - 10 - len(token.text) * LETTER, y, token.text))
        long = max(room * token.saliency / most, 1)
        kind = "top" if rank else "rest"
        parts.append(f'<rect class="{kind}" x="{left:.1f}" y="{y - 13}" width="{long:.1f}" height="16" rx="2"/>')
        if rank:
            said = f"{_ordinal(rank)}: masked" if place in prediction.masked else _ordinal(rank)
            parts.append(_said(left + long + 8, y, said, "ink"))
    ranked = ", ".join(prediction.tokens[i].text for i in prediction.candidates)
    hidden = " and ".join(prediction.tokens[i].text for i in prediction.masked)
    label = f"Saliency of each token of the example. Most salient first: {ranked}. Step one hides {hidden}."
    return _svg(52 + 24 * len(words), label, parts)


def masks_figure(prediction: Prediction, drawn: Sequence[tuple[int, ...]]) -> str:
    """The text as the copies read it."""
    step_one = sum(prediction.first_votes.values())
    later = sum((prediction.second_votes or {}).values())
    parts = [_said(MARGIN, 26, f"step one: all {step_one} copies", "ink strong")]
    y = _copy(parts, prediction, prediction.masked, 50.0)
    parts.append(_said(MARGIN, y + 22, f"step two: the first {len(drawn)} of {later} copies", "ink strong"))
    y += 46
    for mask in drawn:
        y = _copy(parts, prediction, mask, y) + 10
    names = [" and ".join(prediction.tokens[i].text for i in mask) for mask in (prediction.masked, *drawn)]
    label = f"Step one hides {names[0]} in every copy; the first copies of step two hide {', '.join(names[1:])}."
    return _svg(int(y - 2), label, parts)


def _copy(parts: list[str], prediction: Prediction, hidden: Sequence[int], y: float) -> float:
    """Draw one copy, hidden tokens as black boxes, and return where the next one may begin."""
    x = float(MARGIN)
    for place, token in enumerate(prediction.tokens):
        if token.sequence < 0:
            continue
        wide = len(token.text) * LETTER
        starts_word = place > 0 and prediction.tokens[place - 1].end != token.start
        x += LETTER if starts_word and x > MARGIN else 0
        if x + wide > WIDTH - MARGIN:
            x, y = float(MARGIN), y + 24
        if place in hidden:
            parts.append(f'<rect class="hide" x="{x:.1f}" y="{y - 14:.1f}" width="{wide:.1f}" height="19" rx="2"/>')
        else:
            parts.append(_fixed(x, y, token.text))
        x += wide
    return y + 24


def votes_figure(prediction: Prediction) -> str:
    """A dot for each copy, by the class it chose."""
    parts, y, said = [], 28.0, []
    steps = [("step one", prediction.first_votes), ("step two", prediction.second_votes)]
    for name, votes in steps:
        if votes is None:
            continue
        counts = ", ".join(f"{count} {label}" for label, count in votes.items())
        said.append(f"{name}: {counts}")
        parts.append(_said(MARGIN, y, f"{name}: {counts}", "ink strong"))
        kinds = [number % 2 for number, count in enumerate(votes.values()) for _ in range(count)]
        y += 24
        for number, kind in enumerate(kinds):
            x, row = MARGIN + 8 + 32 * (number % ROW), number // ROW
            parts.append(f'<circle class="vote{kind}" cx="{x}" cy="{y + 24 * row:.1f}" r="7.5"/>')
        y += 24 * (1 + (len(kinds) - 1) // ROW) + 14
    parts.append(_said(MARGIN, y, f"decision: {prediction.label}", "ink strong"))
    x = float(MARGIN)
    y += 28
    for number, label in enumerate(prediction.first_votes):
        parts.append(f'<circle class="vote{number % 2}" cx="{x + 8:.1f}" cy="{y - 4.5:.1f}" r="7.5"/>')
        parts.append(_said(x + 22, y, f"copy for {label}", "soft"))
        x += 130
    return _svg(int(y + 18), f"Votes about the example. {'; '.join(said)}. Decision: {prediction.label}.", parts)


def _continues(prediction: Prediction, place: int) -> bool:
    """Whether a token goes on with the word of the one before."""
    token, before = prediction.tokens[place], prediction.tokens[place - 1]
    return (
        place > 0
        and token.sequence >= 0
        and before.sequence >= 0
        and token.start == before.end
        and (token.text.isalnum() and before.text.isalnum())
    )


def _ordinal(rank: int) -> str:
    return {1: "1st", 2: "2nd", 3: "3rd"}.get(rank, f"{rank}th")


def _fixed(x: float, y: float, text: str, kind: str = "") -> str:
    """Text in the fixed font, as wide as planned whatever font the reader has."""
    long = len(text) * LETTER
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" textLength="{long:.1f}">{escape(text)}</text>'


def _said(x: float, y: float, text: str, kind: str = "soft", anchor: str = "start") -> str:
    return f'<text class="said {kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(height: int, label: str, parts: Sequence[str]) -> str:
    ground = f'<rect class="paper" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>'
    style = STYLE.replace("\n", "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(label)}">\n<style>{style}</style>\n'
        + "\n".join([ground, *parts])
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    main()
