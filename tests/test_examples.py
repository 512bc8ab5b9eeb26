"""Every example runs unchanged, prints something and leaves no files behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(script, tmp_path):
    environment = os.environ | {"PRECALL_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]


def test_there_are_examples():
    assert len(EXAMPLES) >= 12
