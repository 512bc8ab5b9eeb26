"""A few attacks of each kind do no harm; `python -m benchmarks.attack` runs as many as its time allows."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from benchmarks.attack import PARTS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the attacks need Linux")


@pytest.mark.smoke
def test_no_attack_does_harm(tmp_path, python):
    out, open_to_all = tmp_path / "attack.json", tempfile.mkdtemp()  # an ordinary user cannot enter pytest's folder
    os.chmod(open_to_all, 0o755)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*python("lightning.fabric"), "-m", "benchmarks.attack", "--smoke", "--seed", "2", "--out", str(out)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path, "TMPDIR": open_to_all}, capture_output=True, text=True,
    )  # fmt: skip
    rows = json.loads(out.read_text()) if out.exists() else []
    found = [
        f"{row['target']} {one['index']}: {one['kind']}: {one['detail']}" for row in rows for one in row["findings"]
    ]
    assert not found, "\n".join(found)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {row["part"] for row in rows} == set(PARTS)
    left = [name for name in os.listdir(open_to_all) if not name.startswith("torchinductor")]  # torch makes this folder
    shutil.rmtree(open_to_all)
    assert not left, "an attack must clean up"
