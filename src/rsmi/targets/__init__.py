"""Models that are not ours, as something to attack: a pipeline of transformers, an HTTP endpoint, a Python function."""

from rsmi.targets.base import ForeignTarget
from rsmi.targets.function import CallableTarget
from rsmi.targets.http import HttpTarget
from rsmi.targets.pipeline import PipelineTarget

__all__ = ["CallableTarget", "ForeignTarget", "HttpTarget", "PipelineTarget"]
