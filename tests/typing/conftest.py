"""`downstream.py` is checked by mypy and never imported."""

collect_ignore = ["downstream.py"]
