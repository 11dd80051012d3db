"""Certificates that are true: bounds, one file per kind, and the paper's formula set apart."""

from rsmi.certify.bounds import anytime_lower_bound, interval, lower_bound, upper_bound
from rsmi.certify.certificate import Certificate, Substitutions
from rsmi.certify.gaussian import combined_std, effective_std, joint_radius, l2_radius
from rsmi.certify.run import certify_texts, open_smoothing
from rsmi.certify.settings import CertifyConfig
from rsmi.certify.theorem import paper_radius

__all__ = [
    "Certificate",
    "CertifyConfig",
    "Substitutions",
    "anytime_lower_bound",
    "certify_texts",
    "combined_std",
    "effective_std",
    "interval",
    "joint_radius",
    "l2_radius",
    "lower_bound",
    "open_smoothing",
    "paper_radius",
    "upper_bound",
]
