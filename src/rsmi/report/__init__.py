"""Runs -> numbers -> tables and figures -> HTML, Markdown, JSON, and figures for papers."""

from rsmi.report.curves import CertifiedCurve
from rsmi.report.report import Report

__all__ = ["CertifiedCurve", "Report"]
