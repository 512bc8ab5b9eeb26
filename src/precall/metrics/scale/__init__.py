"""Samples that are not in one process: shards through an engine, and sketches.

What a score is does not belong here.
"""
