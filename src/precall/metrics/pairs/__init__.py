"""All pairs of two sample sets, block by block: tallies, shortlists, kernel sums. No score belongs here."""
