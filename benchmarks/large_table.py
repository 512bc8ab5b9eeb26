"""A quick assessment of two large Parquet tables with typed columns: its time, its memory, and its answer.

    python -m benchmarks.large_table --out benchmarks/results/large_table.json

The tables have 30 columns: numbers, integers (some missing), categories, truth values and times. The model drops one
category of `c0`, which 8 % of the real rows have, and draws the rest from the same law.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import common
from benchmarks.common import Row, machine, parser, print_table, save

ROWS, COLUMNS = 1_000_000, 30
SHARES = (0.08, *(0.92 / 11,) * 11)


def write(path: Path, rows: int, seed: int, *, dropped: bool) -> None:
    """Write one of the tables."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, columns = np.random.default_rng(seed), {}
    shares = np.array(SHARES) * ([0.0] + [1.0] * 11 if dropped else 1.0)
    base = rng.normal(size=rows)
    for i in range(12):
        columns[f"x{i}"] = pa.array(base * (i % 3) / 2 + rng.normal(size=rows))
    for i in range(6):
        columns[f"n{i}"] = pa.array(rng.integers(0, 40 * (i + 1), rows), mask=rng.random(rows) < i / 50)
    for i in range(6):
        codes = rng.choice(12, rows, p=shares / shares.sum()) if i == 0 else rng.integers(0, 5 + 9 * i, rows)
        names = [f"category {code}" for code in range(60)]
        columns[f"c{i}"] = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), names)
    for i in range(3):
        columns[f"b{i}"] = pa.array(rng.random(rows) < 0.2 * (i + 1))
    for i in range(3):
        columns[f"t{i}"] = pa.array((1.6e15 + 1e14 * rng.random(rows)).astype("datetime64[us]"))
    pq.write_table(pa.table(columns), path)


def measured(rows: int) -> Row:
    """Assess the tables in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for seed, name in enumerate(("real", "fake")):
            write(Path(folder) / f"{name}.parquet", rows, seed, dropped=name == "fake")
        command = ["assess", "--real", "real.parquet", "--fake", "fake.parquet", "--quick", "--out", "out"]
        surroundings = {**os.environ, "PRECALL_CACHE": str(Path(folder) / "cache")}
        start = time.perf_counter()
        done = subprocess.Popen([*common.PYTHON, "-m", "precall", *command], cwd=folder, env=surroundings)
        _, status, used = os.wait4(done.pid, 0)
        done.returncode = os.waitstatus_to_exitcode(status)
        if status:
            raise RuntimeError(f"the assessment ended with status {done.returncode}")
        results = json.loads((Path(folder) / "out" / "results.json").read_text())
    (model,) = results["models"].values()
    return {
        "rows": rows,
        "columns": COLUMNS,
        "seconds": round(time.perf_counter() - start, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mib": used.ru_maxrss >> 10,
        "sample": model["protocol"].get("sample"),
        "kinds": sorted({column["kind"] for column in model["protocol"]["real"]["protocol"]["columns"].values()}),
        "verdict": model["verdict"]["text"] if isinstance(model.get("verdict"), dict) else model.get("verdict"),
    }


def main() -> None:
    made = parser(__doc__, smoke="tables of 300 rows")
    made.add_argument("--rows", type=int, default=ROWS)
    options = made.parse_args()
    found = measured(300 if options.smoke else options.rows)
    print_table("large table", [found])
    save({"machine": machine(), **found}, options.out)


if __name__ == "__main__":
    main()
