"""A command in a fork ends, prints and dies like one of `python`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SAYS = """
import os, sys, warnings
print(sys.argv, os.getcwd(), os.environ["SAID"], "torch" in sys.modules, input())
print("words", file=sys.stderr)
sys.exit(7)
"""
WAITS = """
import sys, time
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture(autouse=True)
def _forks(python):
    if python() == [sys.executable]:
        pytest.skip("no server")


def test_arguments_streams_and_status(python, tmp_path):
    given = {"cwd": tmp_path, "env": {**os.environ, "SAID": "ü"}, "input": "typed\n"}
    done = subprocess.run([*python(), "-c", SAYS, "a", ""], capture_output=True, text=True, **given)
    assert done.stdout == f"['-c', 'a', ''] {tmp_path} ü True typed\n"
    assert (done.stderr, done.returncode) == ("words\n", 7)


@pytest.mark.parametrize("words", [("-m", "mine"), ("mine.py",)])
def test_modules_and_scripts(python, tmp_path, words):
    (tmp_path / "beside.py").write_text("value = 3")
    (tmp_path / "mine.py").write_text(
        "import sys, beside\nassert __name__ == '__main__'\nprint(beside.value, *sys.argv)"
    )
    place = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": ""}}
    done, other = (
        subprocess.run([*start, *words, "x"], capture_output=True, text=True, **place)
        for start in (python(), [sys.executable])
    )
    assert (done.stdout, done.returncode) == (other.stdout, 0)
    assert done.stdout.startswith("3 ")


def test_errors_and_warnings(python):
    done = subprocess.run([*python(), "-c", "1 / 0"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    warned = "import warnings; warnings.warn('careful')"
    assert subprocess.run([*python(), "-c", warned], capture_output=True).returncode == 0
    assert subprocess.run([*python(), "-W", "error", "-c", warned], capture_output=True).returncode == 1


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)]
)
def test_signals_are_passed_on(python, number, status):
    with subprocess.Popen([*python(), "-c", WAITS], stdout=subprocess.PIPE) as waiting:
        assert waiting.stdout.readline() == b"ready\n"
        waiting.send_signal(number)
        assert waiting.wait(300) == status


def test_a_killed_command_takes_its_fork_along(python):
    code = WAITS.replace('print("ready"', 'print(__import__("os").getpid()')
    with subprocess.Popen([*python(), "-c", code], stdout=subprocess.PIPE, text=True) as waiting:
        pid = int(waiting.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        waiting.kill()
        assert waiting.wait(300) == -signal.SIGKILL
        assert waiting.stdout.read() == ""  # the fork was the last to hold it
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
