"""The attacks can fail: code that does harm is found, each kind of harm as what it is."""

import json
import os
import signal
import time
from pathlib import Path
from random import Random

import numpy as np
import pytest

from benchmarks import attack
from benchmarks.attacks import arguments, children, flips, inputs, kills, mutations, playground
from benchmarks.attacks.children import Child, Outcome
from benchmarks.attacks.findings import Finding, Tally
from benchmarks.attacks.inputs import Reader, Victim

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the attacks need Linux")


# -------------------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("own", [(), (mutations.json_node,)], ids=["blind", "JSON"])
def test_damage_is_a_function_of_the_seed(own):
    content = json.dumps({"a": [1, 2.5, {"b": "text"}], "c": None}).encode()
    first, second = ([mutations.mutated(Random(seed), content, own) for seed in range(300)] for _ in range(2))
    assert first == second
    assert np.mean([one == content for one in first]) < 0.1
    assert len(set(first)) > 200


def test_a_valid_checksum_hides_damage_from_the_format(tmp_path):
    """Some damaged PNGs reach the code behind the checksums: they announce another size."""
    from PIL import Image

    from benchmarks.attacks.readers import png

    def size(content):
        (tmp_path / "a.png").write_bytes(content)
        try:
            with Image.open(tmp_path / "a.png") as image:
                return image.size
        except Exception:
            return None

    assert len({size(mutations.png_chunk(Random(seed), png())) for seed in range(200)} - {None}) > 1


HARM = {
    "exception": lambda rng: {}["missing"],
    "message": lambda rng: _raise(ValueError("")),
    "memory": lambda rng: np.ones(3 << 24),  # 1.5 times the limit below
    "crash": lambda rng: os.kill(os.getpid(), signal.SIGKILL),
    "slow": lambda rng: _busy(),
    "refused": lambda rng: _raise(ValueError("no")),
    "read": lambda rng: None,
}


def _raise(error):
    raise error


def _busy():
    while True:
        pass


def victim(folder, read, **options):
    (folder / "a.txt").write_text("undamaged")
    state = []

    def first_is_fine(rng):
        state.append(1)
        return 1.0 if len(state) == 1 else read(rng)

    return Victim(folder, first_is_fine, **options)


@pytest.mark.smoke
@pytest.mark.parametrize("kind", HARM)
def test_every_kind_of_harm_is_named(kind, monkeypatch):
    if kind == "slow":
        monkeypatch.setattr(inputs, "CPU_LIMIT", 1.0)
    if kind == "memory":  # to fill 2 GB takes seconds
        monkeypatch.setattr(inputs, "MEMORY_LIMIT", 1 << 28)
    tally = Reader("reader", lambda folder: victim(folder, HARM[kind]), seed=0).run(0, 2)
    assert tally.tried == tally.next == 2
    assert tally.outcomes[kind] >= 1
    assert tally.harmful == (0 if kind in ("read", "refused") else tally.outcomes[kind])


def test_a_wrong_number_behind_a_hash_is_found():
    tally = Reader("reader", lambda folder: victim(folder, lambda rng: 2.0, protected=True), seed=0).run(0, 3)
    assert tally.outcomes == {"wrong number": 3}


# -------------------------------------------------------------------------------------------------------- command lines


def outcome(status=0, out="", err="", late=False):
    return Outcome(status, out, err, 0.0, late)


BAD = {
    "traceback": outcome(1, err="Traceback (most recent call last):\n  …\nKeyError: 3"),
    "status": outcome(-signal.SIGSEGV),
    "slow": outcome(-signal.SIGKILL, late=True),
    "silent": outcome(1),
    "memory": outcome(1, err="precall: Unable to allocate 745. GiB"),
    "internal error": outcome(1, err="precall: internal error (KeyError: 3). This is a bug, please report it."),
    "control character": outcome(1, err="precall: no such file \x1b[31m"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_end_of_a_command_is_named(kind, tmp_path):
    assert arguments.judged(["assess"], BAD[kind], {}, {}, tmp_path)[0] == kind


def test_changes_outside_the_output_are_found(tmp_path):
    for name in ("a.npy", "b.npy", "out.npy"):
        (tmp_path / name).write_text("before")
    os.mkfifo(tmp_path / "pipe.npy")

    def state():
        return playground._state(os.fsencode(tmp_path))

    def kind(words, before):
        return arguments.judged(words, outcome(), before, state(), tmp_path)[0]

    before = state()
    (tmp_path / "out.npy").write_text("after")
    assert kind(["encode", "a.npy", "--out", "out.npy"], before) == "done"
    assert kind(["encode", "a.npy", "--out", "other.npy"], before) == "changed file"
    assert kind(["encode", "out.npy", "--out", "out.npy"], before) == "changed file"  # its own source
    before = state()
    (tmp_path / "pipe.npy").unlink()
    (tmp_path / "pipe.npy").write_text("a file in the place of a FIFO")
    assert kind(["encode", "a.npy", "--out", "pipe.npy"], before) == "changed file"
    before = state()
    (tmp_path / "left.tmp").write_text("left over")
    assert kind(["encode", "a.npy", "--out", "out.npy"], before) == "changed file"


def test_command_lines_are_a_function_of_the_seed_and_name_every_option():
    lines = [arguments.vector(Random(f"{i}")) for i in range(3000)]
    assert lines == [arguments.vector(Random(f"{i}")) for i in range(3000)]
    words = {word for line in lines for word in line}
    for verb in set(arguments.verbs()):
        missing = {f"--{name}" for name in arguments.options_of(verb)} - words
        assert not missing, f"precall {verb} {missing}"
    assert {0, 1, 2, 3} <= arguments.statuses()


# ------------------------------------------------------------------------------------------------------ kills and flips


def slowly(words, folder, **_):
    """A command that writes its output in two parts."""

    def work():
        (folder / "out").mkdir(exist_ok=True)
        with (folder / "out" / "result").open("wb", buffering=0) as file:
            file.write(b"first")
            time.sleep(0.2)
            file.write(b"second")
        return 0

    return Child(work)


def test_a_partial_output_is_found(monkeypatch, tmp_path):
    ground = playground.Playground(tmp_path / "home", tmp_path / "cache", tmp_path / "tmp")
    for folder in (ground.home, ground.cache):
        folder.mkdir()
    monkeypatch.setattr(kills, "precall", slowly)
    monkeypatch.setattr(kills, "ground", lambda: ground)
    killed = kills.Victim("encode")
    assert killed.expected == {"result": b"firstsecond"}
    assert any(kills.kill(killed, Random(seed))[0] == "partial output" for seed in range(100))


def test_a_flip_changes_one_bit():
    content = bytes(range(64))
    changed = [a ^ b for a, b in zip(content, flips.flipped(Random(3), content), strict=True)]
    assert sum(one.bit_count() for one in changed) == 1


def test_a_child_that_waits_is_ended():
    ended = Child(lambda: time.sleep(60) or 0).wait(wall=0.2)
    assert (ended.late, ended.status) == (True, -signal.SIGKILL)


def test_a_child_does_not_touch_the_network():
    def work():
        import socket

        children.offline()
        socket.create_connection(("192.0.2.1", 80))
        return 0

    assert "no network" in Child(work).wait().err


# -------------------------------------------------------------------------------------------------------------- totals


def test_runs_add_up_and_continue(monkeypatch, tmp_path, capsys):
    def attacked(name, seed, first, last, deadline):
        tally = Tally(next=first)
        for index in range(first, last):
            bad = index == 3
            tally.next = index + 1
            tally.found(Finding(name, seed, index, "slow", "a | b")) if bad else tally.note("done")
        return tally

    monkeypatch.setattr(attack, "PARTS", {"inputs": (("t",), attacked, 1.0, 2, "damaged files")})
    rows = []
    attack.one(rows, "inputs", "t", 1, None, 2)
    attack.one(rows, "inputs", "t", 1, None, 2)  # continues: items 2 and 3
    attack.one(rows, "inputs", "t", 2, None, 3)
    assert [(row["seed"], row["tried"], row["next"]) for row in rows] == [(1, 4, 4), (2, 3, 3)]
    rows = json.loads(json.dumps(rows))
    table = attack.markdown(rows)
    assert "| damaged files | 7 | 6 | 0 | 1 | 2 |" in table
    assert "| t | 1 | 3 | slow | a \\| b |" in table


def test_what_lies_in_a_temporary_folder_is_left_over_only():
    assert kills._left_over(".precall-1-a.tmp/a/12.png", signal.SIGKILL)
    assert not kills._left_over(".precall-1-a.tmp/a/12.png", signal.SIGTERM)
    assert not kills._left_over("a/12.png", signal.SIGKILL)
