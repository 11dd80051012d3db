"""A `Prediction` -> lines on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from rsmi.records import Label, Prediction

_MASKED = "bold white on red"
_CANDIDATE = "bold black on yellow"
_SALIENT = "yellow"
_SHOWN = 100  # characters of a text on a one-line result

# a text must not move the cursor, recolour the screen or turn the line around; one character each, so offsets hold
_CONTROLS = (range(0x20), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
_UNPRINTABLE = {code: "\ufffd" for codes in _CONTROLS for code in codes if chr(code) not in "\n\t"}


def print_line(prediction: Prediction) -> None:
    """Print label, share of the votes and the beginning of the text."""
    shown = " ".join(" | ".join(_parts(prediction)).split())
    shown = shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
    label = "abstains" if prediction.label is None else str(prediction.label)
    _console().print(Text(f"{label:<12} {max(prediction.probabilities.values()):6.1%}  {shown}"), soft_wrap=True)


def print_explanation(prediction: Prediction) -> None:
    """Print the decision, the text with its masked and salient tokens coloured, and the votes."""
    console = _console()
    label = "abstains (too close to call)" if prediction.label is None else str(prediction.label)
    line = Text.assemble(("decision  ", "dim"), (label, "bold"))
    line.append(f"  {max(prediction.probabilities.values()):.1%}")
    line.append("  escalated to step two" if prediction.escalated else "", style="magenta")
    console.print(line)
    for part, content in enumerate(_parts(prediction)):
        console.print(Text.assemble(("text      ", "dim"), coloured(content, part, prediction)), soft_wrap=True)
    console.print(Text.assemble(("masks     ", "dim"), _masks(prediction)), soft_wrap=True)
    console.print(Text.assemble(("step one  ", "dim"), _votes(prediction.first_votes)))
    if prediction.second_votes is not None:
        console.print(Text.assemble(("step two  ", "dim"), _votes(prediction.second_votes)))
    if prediction.truncated:
        console.print(Text("the text is longer than the model reads; its end was cut", style="red"))
    console.print()


def coloured(content: str, part: int, prediction: Prediction) -> Text:
    """Return one text of a pair (or the only one) with masked, candidate and salient tokens coloured."""
    text = Text(content)
    strongest = max((token.saliency for token in prediction.tokens), default=0.0)
    for i, token in enumerate(prediction.tokens):
        if token.sequence != part:
            continue
        if i in prediction.masked:
            text.stylize(_MASKED, token.start, token.end)
        elif i in prediction.candidates and token.saliency > 0:
            text.stylize(_CANDIDATE, token.start, token.end)
        elif strongest > 0 and token.saliency >= strongest / 2:
            text.stylize(_SALIENT, token.start, token.end)
    return text


def printable(text: str) -> str:
    """Return a text that cannot move the cursor, recolour the screen or turn the line around; as long as it was."""
    return text.translate(_UNPRINTABLE)


def _parts(prediction: Prediction) -> tuple[str, ...]:
    parts = (prediction.text,) if isinstance(prediction.text, str) else prediction.text
    return tuple(printable(part) for part in parts)


def _masks(prediction: Prediction) -> Text:
    if not prediction.candidates:
        return Text("none" if prediction.masks_wanted == 0 else "none: the text has no token that may be masked")
    line = Text()
    if prediction.masked:
        line.append("every copy hides ").append(_names(prediction, prediction.masked), style=_MASKED).append("; ")
    random_only = all(token.saliency == 0 for token in prediction.tokens)
    pool = "any tokens" if random_only else _names(prediction, prediction.candidates)
    line.append("drawn from ").append(pool, style="" if random_only else _CANDIDATE)
    if len(prediction.candidates) < prediction.masks_wanted:
        line.append(f" (wanted {prediction.masks_wanted} masks; the text is too short)", style="red")
    return line


def _names(prediction: Prediction, positions: tuple[int, ...]) -> str:
    return ", ".join(printable(prediction.tokens[i].text) for i in positions)


def _votes(votes: dict[Label, int]) -> Text:
    total, width = sum(votes.values()), 24
    line = Text()
    for label, count in votes.items():
        line.append(f"{label} {count}/{total} ").append("█" * round(width * count / total), style="cyan").append("  ")
    return line


def _console() -> Console:
    return Console(highlight=False)
