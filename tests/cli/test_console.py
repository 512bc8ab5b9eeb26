"""The error door: any exception becomes a sentence and a status that `--help` lists."""

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import precall.cli
from precall.cli.console import command_line, explained


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(precall.cli.app, [str(word) for word in words])


def started(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "precall", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


ERRORS = {
    "value": (ValueError("`k` must be positive."), 1, "`k` must be positive."),
    "notes": (ValueError("two\n lines"), 1, "two lines"),
    "missing": (FileNotFoundError(2, "No such file or directory", "a\x1b"), 1, "No such file or directory: `a\\x1b`."),
    "full": (OSError(28, "No space left on device", "out.npy"), 1, "`out.npy`. Free some space"),
    "full stdout": (OSError(28, "No space left on device"), 1, "device. Free some space"),
    "bytes": (OSError(13, "Permission denied", b"\xff"), 1, "Permission denied: `\\udcff`."),
    "package": (ImportError("No module named 'x'"), 1, "No module named 'x'"),
    "memory": (MemoryError("7 GiB"), 1, "not enough memory (7 GiB)"),
    "torch memory": (RuntimeError("CUDA out of memory."), 1, "not enough memory"),
    "recursion": (RecursionError("too deep"), 70, "RecursionError: too deep"),
    "bug": (KeyError("auto"), 70, "This is a bug, please report it"),
    "no message": (AssertionError(), 70, "AssertionError"),
    "pipe": (BrokenPipeError(32, "Broken pipe"), 141, ""),
    "interrupt": (KeyboardInterrupt(), 130, "interrupted"),
}


@pytest.mark.parametrize(("error", "status", "said"), ERRORS.values(), ids=ERRORS)
def test_every_exception_is_a_sentence_and_a_listed_status(run, monkeypatch, error, status, said):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("precall.report.folder.load", fail)
    done = run("report", "results.json")
    assert done.exit_code == status
    assert said in done.stderr
    assert done.stderr.count("\n") == (1 if said else 0)
    assert "Traceback" not in done.stderr
    assert re.search(rf"\b{status} ", run("--help").stdout.split("Exit status")[1])
    debugged = run("--debug", "report", "results.json")
    assert debugged.exit_code == status
    assert "Traceback" in debugged.stderr


def test_a_message_of_a_megabyte_is_cut():
    assert len(explained(ValueError("x" * 10**6))[1]) < 3000


@pytest.mark.parametrize("words", [("--\x1b[31m",), ("\x1b[31m",), ("report", "--\x1b[31m"), ("report", "\x1b[31m")])
def test_what_was_typed_reaches_the_terminal_escaped(run, words):
    done = run(*words)
    assert done.exit_code in (1, 2)
    assert "\\x1b[31m" in done.stderr
    assert "\x1b" not in done.output


@pytest.mark.parametrize("locale", [{"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}])
def test_undecodable_and_hostile_model_names_are_printed_escaped(tmp_path, locale):
    np.save(tmp_path / "a.npy", np.random.default_rng(0).normal(size=(30, 2)))
    name = b"\xff\x1b[31m\xce\xbb=" + os.fsencode(tmp_path / "a.npy")
    words = [sys.executable, "-m", "precall", "assess", "--real", tmp_path / "a.npy", "--fake", name]
    done = subprocess.run(
        [*words, "--metrics", "fid", "--out", tmp_path / "out"],
        capture_output=True, env=os.environ | {"PRECALL_CACHE": str(tmp_path / "cache")} | locale,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"\xff" not in done.stdout + done.stderr
    assert done.stdout.splitlines()[3].startswith(b"\\udcff\\x1b[31m")
    assert b"\x1b" not in (tmp_path / "out" / "results.json").read_bytes()


@pytest.mark.parametrize("words", [["--out", ""], ["--out="], [""]])
def test_an_empty_path_is_not_the_working_directory(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.random.default_rng(0).normal(size=(60, 2)))
    done = CliRunner().invoke(
        precall.cli.app, ["assess", "--real", "a.npy", "--fake", "a.npy", "--metrics", "fid", *words]
    )
    assert done.exit_code == 2
    assert "an argument is empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_interrupts_and_leaves_no_temporary_file(tmp_path, number):
    code = (
        "import sys, time, precall.report.folder as folder; from pathlib import Path\n"
        "from precall.files import open_atomically; from precall.cli import app\n"
        "def slow(path):\n"
        "    with open_atomically(Path(sys.argv[3])) as file: print('ready', flush=True); time.sleep(600)\n"
        "folder.load = slow; app()"
    )
    words = [sys.executable, "-c", code.replace("sys.argv[3]", repr(str(tmp_path / "out"))), "report", "results.json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 130
    assert said.startswith("precall: interrupted.")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_options_are_known_is_no_traceback(monkeypatch, capsys, number):
    import typer.main

    monkeypatch.setattr(typer.main, "get_command", lambda app: os.kill(os.getpid(), number))
    with pytest.raises(SystemExit) as ended:
        precall.cli.app([])
    assert ended.value.code == 130
    assert capsys.readouterr().err.startswith("precall: interrupted.")


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    code = (
        "import signal, os, precall.report.folder as folder; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from precall.cli import app\n"
        "def load(path): os.kill(os.getpid(), signal.SIGHUP); raise ValueError('still here')\n"
        "folder.load = load; app()"
    )
    done = subprocess.run([sys.executable, "-c", code, "report", "x"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "precall: still here\n")


def test_a_reader_that_leaves_and_a_full_disk_are_no_tracebacks():
    with started("cite") as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "precall", "cite"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "precall: No space left on device. Free some space, or write to another disk.\n"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("ours=https://me:secret@host/a.npy?signature=secret", "ours=https://host/a.npy"),
        ("ours@0.7=S3://key:secret@bucket/x", "ours@0.7=s3://bucket/x"),
        ("zip://*.npy::https://host/a.zip?token=secret", "'zip://*.npy::https://host/a.zip'"),
        ("a folder/x.npy", "'a folder/x.npy'"),
    ],
)
def test_the_stored_command_has_no_secret(monkeypatch, given, kept):
    monkeypatch.setattr("sys.argv", ["precall", "assess", "--fake", given])
    assert command_line() == f"precall assess --fake {kept}"
