"""Text classifiers that hold up under adversarial attack: randomized smoothing and masked inference (RSMI)."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rsmi.certify import Certificate, CertifyConfig
    from rsmi.classifier import RsmiClassifier
    from rsmi.config import RsmiConfig, TrainConfig
    from rsmi.data import TextDataset, load_data
    from rsmi.defense import Defense
    from rsmi.errors import NotCertifiable, RsmiError
    from rsmi.guard import Guard
    from rsmi.method.monitoring import under_attack
    from rsmi.presets import load_preset
    from rsmi.records import Prediction, Token
    from rsmi.report import Report
    from rsmi.scoring import score_file

__all__ = [
    "Certificate",
    "CertifyConfig",
    "Defense",
    "Guard",
    "NotCertifiable",
    "Prediction",
    "Report",
    "RsmiClassifier",
    "RsmiConfig",
    "RsmiError",
    "TextDataset",
    "Token",
    "TrainConfig",
    "load_data",
    "load_preset",
    "score_file",
    "under_attack",
]
__version__ = version("rsmi")

_HOMES = {
    "Certificate": "rsmi.certify",
    "CertifyConfig": "rsmi.certify",
    "Defense": "rsmi.defense",
    "Guard": "rsmi.guard",
    "NotCertifiable": "rsmi.errors",
    "Prediction": "rsmi.records",
    "Report": "rsmi.report",
    "RsmiClassifier": "rsmi.classifier",
    "RsmiConfig": "rsmi.config",
    "RsmiError": "rsmi.errors",
    "TextDataset": "rsmi.data",
    "Token": "rsmi.records",
    "TrainConfig": "rsmi.config",
    "load_data": "rsmi.data",
    "load_preset": "rsmi.presets",
    "score_file": "rsmi.scoring",
    "under_attack": "rsmi.method.monitoring",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: `rsmi --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rsmi' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
