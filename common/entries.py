"""Entries of a model's config.json that are this project's own, for readers with torch and without."""

PAIRS = "text_pairs"
"""Whether the texts of the model's task are pairs; older folders do not say."""
