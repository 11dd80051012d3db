"""Shells around the public API: the command line and the demo."""
