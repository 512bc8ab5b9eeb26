"""Samples that are not in one process: shards and sketches. What a score is does not belong here."""
