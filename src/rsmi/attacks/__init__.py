"""Attacks on text classifiers: a target and labelled texts -> a record of each attempt to fool it."""
