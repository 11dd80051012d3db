"""A classifier -> ONNX graphs that another runtime computes votes and saliency with, without torch."""

from rsmi.export.folder import export_onnx

__all__ = ["export_onnx"]
