"""Assess a synthetic table per group, to find the groups that it represents worst."""

import csv
import tempfile
from pathlib import Path

import numpy as np

import precall

rng = np.random.default_rng(0)


def people(n, *, spread_of_b):
    """Rows of age, income and group. `spread_of_b` is the standard deviation of the income in group "b"."""
    group = rng.choice(["a", "b"], n)
    age = rng.integers(18, 80, n)
    income = 1000 + 20 * age + rng.normal(0, np.where(group == "b", spread_of_b, 300))
    return [("age", "income", "group"), *zip(age.tolist(), income.round().tolist(), group.tolist(), strict=True)]


with tempfile.TemporaryDirectory() as folder:
    tables = {"real": people(500, spread_of_b=300), "fake": people(500, spread_of_b=30)}
    paths = {side: Path(folder) / f"{side}.csv" for side in tables}
    for side, rows in tables.items():
        with paths[side].open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    groups = {side: [row[2] for row in rows[1:]] for side, rows in tables.items()}
    report = precall.assess(**paths, metrics=("clusters", "neighbors"), groups=groups)

print("all groups: recall", report.scores["recall"])
for label, one in report.groups.items():
    print(f"group {label}:    recall", one.scores["recall"])
print("largest gap in recall:", report.fairness.recall)
