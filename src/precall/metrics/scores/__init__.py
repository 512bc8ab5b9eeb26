"""What a result is: scores with intervals, curves, verdicts, gates, groups and trade-offs.

No estimator belongs here.
"""
