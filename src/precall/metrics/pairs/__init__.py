"""All pairs of two sample sets, read block by block: tallies, shortlists, kernel sums, soft supports.

No score belongs here.
"""
