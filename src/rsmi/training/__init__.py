"""Labelled texts -> trained weights: a `Trainer` subclass and one objective a file."""
