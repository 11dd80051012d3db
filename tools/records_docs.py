"""Write docs/reference/records.md from the records' own dataclasses (run by `make docs`; a test compares them)."""

from pathlib import Path

from field_docs import Field, fields_of, kind_of, strings_of, table

from rsmi.app.server import schemas
from rsmi.certify import Certificate
from rsmi.evaluation.certifying import Audit, Certified
from rsmi.guard import Ruling, Threshold
from rsmi.records import Accuracy, AttackRecord, Evidence, Prediction, Token
from rsmi.scoring.answers import added_columns

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "records.md"

RUN = {
    "format": "Number of this format: 1. A file of another one is refused.",
    "attack": "Name and every setting of the attack.",
    "resources": "Lexicons and models that the attack used, by what they are for.",
    "data": "`name`, `split`, `source` and `fingerprint` of the texts.",
    "num": "Texts of the run; a file with fewer records is unfinished.",
    "seed": "Of the attack's own draws.",
    "randomised": "Whether the model's answers depend on random draws.",
    "uses_gradients": "Whether it takes a gradient to answer.",
    "model": "`name`, `fingerprint` of weights and classes, and `config`: every field of `RsmiConfig`. Of a model "
    "that is not ours, what is known of it.",
    "backend": "How copies were classified: `torch`, `int8` or `compile`.",
    "model_seed": "Of the model's noise.",
    "versions": "Of Python, rsmi and the libraries that a result depends on.",
    "protocol": "What the attacker could do: `name`, `label`, and the numbers of the protocol.",
}
"""First line of a file of `rsmi attack`."""
CERTIFIED_RUN = {
    "format": RUN["format"],
    "certify": "Every field of `CertifyConfig`.",
    "data": RUN["data"],
    "num": RUN["num"],
    "seed": "Of the draws.",
    **{name: RUN[name] for name in ("model", "backend", "model_seed", "versions")},
}
"""First line of a file of `rsmi certify`."""
_PLACE = Field(
    "place", "integer", "", "Place of the text in the sample, from 0; records are in this order when the run has ended."
)

_CERTIFICATE = {
    "text": "What is certified.",
    "kind": "`l2-hidden`, `l2-embedding`, `l0-mask`, `synonym` or `edit`.",
    "masking": "`none`, `in-noise` or `all-masks`.",
    "failure_prob": "Chance that this certificate is wrong.",
}
_ACCURACY = {
    "correct": "Right answers.",
    "total": "Texts.",
    "abstained": "Texts without an answer; they are not right.",
}
_RULING = {"text": "What was checked.", "action": "What to do with it."}
_SCORED = {
    "label": "The answer; empty where the vote abstains.",
    "probability_CLASS": "One column for each class: its share of the deciding votes, or of the averaged logits.",
    "escalated": strings_of(Prediction)["escalated"],
    "abstained": strings_of(Prediction)["abstained"],
    "truncated": strings_of(Prediction)["truncated"],
    "copies": strings_of(Prediction)["copies"],
    "under_attack": "From 0 to 1: how much the decision looks like one under attack.",
    "error": "Only with `--on-error skip`: why a row has no prediction.",
}
_EVENTS = {
    "start": "`attack`, `label` (the class that must stand) and `max_queries`.",
    "query": "`number`, `text`, `label` (the answer), `gold` (probability of the class that must stand) and `wrong`.",
    "again": "`label`: the answer to what was found, under fresh noise.",
    "end": "`record`: every field of an attack record.",
    "stopped": "`reason`: it took too long, or the server stops. Nothing follows.",
    "error": "`message`. Nothing follows.",
}


def markdown() -> str:
    """Return the page."""
    parts = [_INTRO]
    parts += ["## Attack records", "", _ATTACK, "", *_named(RUN), "", "Every other line:", ""]
    parts += [*table([_PLACE, *fields_of(AttackRecord)]), "", "`evidence` holds for each of the two texts:", ""]
    parts += [*table(fields_of(Evidence)), ""]
    parts += ["## Certificates", "", _CERTIFY, "", *_named(CERTIFIED_RUN), "", "Every other line:", ""]
    certified = {own.name: own for own in fields_of(Certified, {"certificate": "unfolded"})}
    rows = [_PLACE, certified["gold"], *_certificate(), certified["audits"]]
    parts += [*table(rows), "", "Each of `audits`:", "", *table(fields_of(Audit)), ""]
    parts += ["## Predictions", "", _PREDICT, "", *table(_prediction()), "", "Each of `tokens`:", ""]
    parts += [*table(fields_of(Token)), "", "## Scored files", "", _SCORE, "", *table(_scored()), ""]
    parts += [
        "## Accuracy",
        "",
        _EVALUATE,
        "",
        *table([*fields_of(Accuracy, _ACCURACY), _property(Accuracy, "value", float)]),
        "",
    ]
    parts += ["## Guards", "", _GUARD, "", *table(fields_of(Ruling, _RULING)), "", _GUARD_FILE, ""]
    parts += [*table(fields_of(Threshold)), "", "## Server", "", _SERVER, ""]
    for thing, about, words in _answers():
        parts += [f"### {about}", "", *table(fields_of(thing, words)), ""]
    parts += ["### An event of an attack", "", _STREAM, "", "| `event` | Other fields |", "|---|---|"]
    parts += [f"| `{name}` | {said} |" for name, said in _EVENTS.items()]
    return "\n".join(parts) + "\n"


def _certificate() -> list[Field]:
    rows = fields_of(Certificate, _CERTIFICATE)
    pairs = "list of [label, integer]"  # labels may be numbers, which JSON takes for no names
    return [Field(own.name, pairs, "", own.meaning) if own.name == "counts" else own for own in rows]


def _prediction() -> list[Field]:
    more = [
        _property(Prediction, name, kind) for name, kind in (("escalated", bool), ("abstained", bool), ("copies", int))
    ]
    return [*fields_of(Prediction), *more]


def _property(thing: type, name: str, kind: type) -> Field:
    return Field(name, kind_of(kind), "", strings_of(thing)[name])


def _scored() -> list[Field]:
    columns = added_columns(("CLASS",), "", with_error=True)
    if [column.name for column in columns] != list(_SCORED):
        raise ValueError(f"expected words about {[column.name for column in columns]}, got them about {list(_SCORED)}")
    kinds = {"string": "text", "double": "number", "bool": "true or false", "int64": "integer"}
    return [
        Field(
            column.name, "text or integer" if column.name == "label" else kinds[column.kind], "", _SCORED[column.name]
        )
        for column in columns
    ]


def _answers() -> list[tuple[type, str, dict[str, str]]]:
    """Return each answer with the words of the records that it takes its fields from."""
    predicted = strings_of(Prediction)
    certified = {**strings_of(Certificate), **_CERTIFICATE}
    brief = {
        name: predicted[name] for name in ("label", "probabilities", "escalated", "abstained", "truncated", "copies")
    }
    behind = {
        name: predicted[name]
        for name in schemas.ExplainAnswer.model_fields
        if name not in schemas.PredictAnswer.model_fields
    }
    own = [name for name in schemas.CertificateAnswer.model_fields if name != "windows"]
    window = {"label": "The answer to this window.", "probabilities": predicted["probabilities"]}
    windows = {
        "count": "How many windows there were.",
        "tokens": "Tokens of the whole text.",
        "rule": "How their answers were put together, in words.",
        "windows": "What each of them said.",
    }
    model = {
        "name": "Name of the model's folder.",
        "version": "Of rsmi.",
        "classes": "The classes, in the order of the head's outputs.",
        "max_tokens": "Tokens read at once, special ones included.",
        "qualities": "What `quality` may be.",
        "attacks": "What `attack` may be.",
        "limits": "What the server takes, by name.",
    }
    problem = {
        "type": "What kind of mistake, in one word.",
        "message": "What is wrong and what to do, without the text that was sent.",
        "request_id": "Also in the log, and in the header `X-Request-ID`.",
        "details": "Where in the body, for bodies that do not fit.",
    }
    return [
        (schemas.PredictAnswer, "A result of `POST /v1/predict`", brief),
        (schemas.ExplainAnswer, "A result of `POST /v1/explain`", {**brief, **behind}),
        (
            schemas.CertificateAnswer,
            "A result of `POST /v1/certify`, and `certificate` above",
            {name: certified[name] for name in own},
        ),
        (schemas.Windows, "`windows`", windows),
        (schemas.WindowAnswer, "Each of `windows.windows`", window),
        (schemas.ModelResponse, "`GET /v1/model`", model),
        (schemas.Problem, "`error`: the body of every answer that is not 200", problem),
    ]


def _named(words: dict[str, str]) -> list[str]:
    return ["| Field | Meaning |", "|---|---|", *(f"| `{name}` | {said} |" for name, said in words.items())]


_INTRO = """# Records, files and answers

Written by `make docs` from the dataclasses themselves. The library, the files and the server use the same names. A
text is a string; a pair of texts is a list of two. A label is a text or an integer, as in the training data. JSON has
no NaN and no None: where there is nothing, there is null.
"""
_ATTACK = """`rsmi attack --out FILE.jsonl` writes a line of JSON for each text, after a first line `{"run": {...}}`
about everything that the records depend on. `Run.read(path)` of `rsmi.evaluation.runs` reads a file,
`AttackRecord.from_dict` a record. The first line:"""
_CERTIFY = """`rsmi certify --out FILE.jsonl` writes files of the same build; `read_certificates` of
`rsmi.evaluation.certifying` reads them. A certificate that was read from a file knows no model:
`RsmiClassifier.attach(certificate, ...)` gives it one again, for `covers`. The first line:"""
_PREDICT = """What `RsmiClassifier.explain` returns and `rsmi predict --json --explain` prints, a line a text;
without `--explain` it is `text`, `label`, `probabilities`, `escalated`, `truncated` and `copies`."""
_SCORE = """`rsmi predict --file IN --out OUT` and `score_file` keep all columns of the file and add these, each
with `--prefix` before its name. In CSV what is missing is empty."""
_EVALUATE = """`rsmi evaluate --json` prints these and what was measured: `model`, `data`, `split`, `source`,
`fingerprint`, `seed`, `config`."""
_GUARD = "`Guard.check` returns one ruling a text:"
_GUARD_FILE = """`guard.save(folder)` writes `rsmi_guard.json`: `positive`, the class that is guarded against;
`allow`, the texts that always pass; and the thresholds `block` and `review` (or null), each with"""
_SERVER = """[Serving](../serving.md) says what to send. Answers have `model`, `quality` (not those of
`/v1/certify`) and `results`, one a text. In `probabilities` and votes classes are names, whatever their type;
`label` keeps it. The OpenAPI document of a running server is at `/openapi.json`."""
_STREAM = "`POST /v1/attack` answers with a line of JSON for each of these, as they happen:"


if __name__ == "__main__":
    TARGET.write_text(markdown(), encoding="utf-8")
