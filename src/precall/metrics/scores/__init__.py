"""What a result is: scores, curves, verdicts, gates and groups. No estimator belongs here."""
