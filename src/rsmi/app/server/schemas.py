"""Bodies of requests and answers, with the field names of the records."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator
from typing_extensions import Self

from rsmi.app.server.quality import Quality
from rsmi.records import Label

Text = Annotated[str, Field(min_length=1)]
Pair = Annotated[list[Text], Field(min_length=2, max_length=2)]
Input = Text | Pair
"""A text, or a pair of texts as a list of two."""
Inputs = Annotated[list[Input], FailFast()]
"""The first mistake is enough: there may be a hundred thousand."""
Unit = Annotated[float, Field(ge=0, le=1)]

_MOST_FIELDS = 20
_ONE = "A joy to watch from start to end."
_TWO = "The plot is dull and the jokes fall flat."


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, values: Any) -> Any:
        """Refuse a body of thousands of fields with one error, not with thousands."""
        if isinstance(values, dict) and len(values) > _MOST_FIELDS:
            raise ValueError(f"expected at most {_MOST_FIELDS} fields")
        return values


def _described(*examples: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"required": ["text"]}, {"required": ["texts"]}], "examples": list(examples)}


class _Texts(_Request):
    text: Input = Field(default="", description="One text, or a pair of texts as a list of two.")
    texts: Inputs = Field(default=[], min_length=1, description="Several, all texts or all pairs.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if len({"text", "texts"} & self.model_fields_set) != 1:
            raise ValueError("expected either text or texts, and not both")
        return self

    @property
    def given(self) -> list[Any]:
        """The texts, however they were given."""
        return list(self.texts) or [self.text]


class TextsRequest(_Texts):
    """One text or several."""

    model_config = ConfigDict(
        json_schema_extra=_described(
            {"text": _ONE}, {"texts": [_ONE, _TWO], "quality": "fast"}, {"text": ["Who?", "He did it."]}
        )
    )

    quality: Quality = Field(
        default="standard",
        description="fast: few copies, no saliency. standard: the model's settings. certified: a certificate, too.",
    )


class CertifyRequest(_Texts):
    """One text or several, and what to prove about them; see `rsmi certify`."""

    model_config = ConfigDict(
        json_schema_extra=_described(
            {"text": _ONE}, {"texts": [_ONE, _TWO], "estimation_samples": 500, "failure_prob": 0.01}
        )
    )

    kind: Literal["l2-hidden", "l2-embedding", "l0-mask", "synonym", "edit"] | None = Field(
        default=None, description="By default what the model was trained for."
    )
    masking: Literal["none", "in-noise"] = "none"
    selection_samples: int = Field(default=100, ge=1, description="Draws that pick the class.")
    estimation_samples: int | None = Field(default=None, ge=1, description="Draws that bound its probability.")
    failure_prob: float = Field(default=1e-3, gt=0, lt=1, description="Chance that the certificate is wrong.")
    bound: Literal["pa", "bonferroni", "refined", "sequential"] = "pa"
    radius: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="Stop once this is settled.")


class AttackRequest(_Request):
    """One text to attack while you look on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"text": _ONE, "max_queries": 200}]})

    text: Input
    label: Label | None = Field(default=None, description="The true class; by default what the model answers.")
    attack: str = Field(default="deepwordbug", max_length=40)
    max_queries: int | None = Field(default=None, ge=1, description="By default all that the server allows.")


class WindowAnswer(BaseModel):
    """What was read at once, and what came of it."""

    spans: list[tuple[int, int]] = Field(description="First and one past the last character, of each text.")
    label: Label | None
    probabilities: dict[str, Unit]


class Windows(BaseModel):
    """How a text longer than the model reads was read."""

    count: int
    tokens: int
    max_tokens: int = Field(description="What the model reads at once, special tokens included.")
    rule: str
    decisive: int | None = Field(description="The window most sure of the label (abstained: of the likeliest class).")
    windows: list[WindowAnswer]


class CertificateAnswer(BaseModel):
    """What is proved; `counts` are pairs of class and votes."""

    text: str | tuple[str, str]
    label: Label | None
    kind: str
    masking: str
    space: str
    radius: float
    noise_std: float
    counts: list[tuple[Label, int]]
    p_lower: Unit
    p_upper_other: Unit
    failure_prob: Unit
    samples: int
    num_words: int
    abstained: bool
    windows: Windows | None = Field(description="Why there is no certificate: the text is longer than the model reads.")


class PredictAnswer(BaseModel):
    """The decision about one text."""

    label: Label | None
    probabilities: dict[str, Unit]
    escalated: bool
    abstained: bool
    truncated: bool
    copies: int
    under_attack: Unit = Field(description="How much the decision looks like one under attack.")
    windows: Windows | None = Field(description="Set where the text is longer than the model reads at once.")
    certificate: CertificateAnswer | None = Field(description="Set with quality certified.")
    certified: bool | None = Field(
        description="Whether the certificate is for this very label; with quality certified."
    )


class TokenAnswer(BaseModel):
    """One token as the model reads it."""

    text: str
    start: int
    end: int
    sequence: int
    saliency: float


class ExplainAnswer(PredictAnswer):
    """The decision about one text, with the votes and masks behind it."""

    text: str | tuple[str, str]
    first_votes: dict[str, int]
    second_votes: dict[str, int] | None
    masked: list[int]
    candidates: list[int]
    masks_wanted: int
    tokens: list[TokenAnswer]


class PredictResponse(BaseModel):
    """One result a text, in their order."""

    model: str
    quality: Quality
    results: list[PredictAnswer]


class ExplainResponse(BaseModel):
    """One result a text, in their order."""

    model: str
    quality: Quality
    results: list[ExplainAnswer]


class CertifyResponse(BaseModel):
    """One certificate a text, in their order."""

    model: str
    results: list[CertificateAnswer]


class ModelResponse(BaseModel):
    """What this server offers."""

    name: str
    version: str
    classes: list[Label]
    max_tokens: int
    qualities: list[Quality]
    certificate: str | None = Field(description="Kind of certificate that suits the model; null if there is none.")
    attacks: list[str]
    limits: dict[str, float]


class Problem(BaseModel):
    """What went wrong."""

    type: str
    message: str
    request_id: str
    details: list[dict[str, str]] = []


class ErrorResponse(BaseModel):
    """Body of every answer that is not 200."""

    error: Problem


class StateResponse(BaseModel):
    """ok, failed, loading, ready or draining."""

    status: str
