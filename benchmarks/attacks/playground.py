"""A folder with samples of every kind, hostile files and a picture of its state before and after a command."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.attacks import readers
from benchmarks.attacks.children import remove

DEEP = 1300  # levels of the deep folder: more than Python's limit on recursion
State = dict[bytes, str]  # what lies at each path, without the files' times

HOSTILE = (
    b"a\nb", b"-dash", b"--out", b"$\\frac{$", b"\x1b[31mred", b"\xff\xfe", b"<img src=x onerror=alert(1)>",
    b"x" * 200, b"a=b",
    b"%s%n{0}", b"\xe2\x80\xae\xd7\x90", b"'; drop", b"a,b;c\td", b" ", b"caf\xc3\xa9", b"CON", b"$HOME", b"~",
)  # fmt: skip


@dataclass(frozen=True)
class Playground:
    """A folder in which commands run.

    Attributes:
        home: The working directory of the commands; everything in it is watched.
        cache: The cache of the commands.
        temporary: Their folder for temporary files, which must be empty after each.
    """

    home: Path
    cache: Path
    temporary: Path

    @classmethod
    def make(cls, folder: Path, *, hostile: bool = True) -> Playground:
        """Fill `folder`.

        Args:
            folder: An empty folder.
            hostile: Also make devices, FIFOs, loops of links, a very deep folder and files with hostile names.
        """
        made = cls(folder / "home", folder / "cache", folder / "tmp")
        for one in (made.home, made.cache, made.temporary):
            one.mkdir(parents=True, exist_ok=True)
        _samples(made.home)
        if hostile:
            _hostile(made.home)
        return made

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the commands."""
        return {"PRECALL_CACHE": str(self.cache), "TMPDIR": str(self.temporary), "HOME": str(self.temporary)}

    def state(self) -> State:
        """What lies at each path below `home` and in the folder for temporary files."""
        return {**_state(os.fsencode(self.home)), **_state(os.fsencode(self.temporary))}

    def restored(self, before: State, after: State) -> bool:
        """Remove what is new; returns whether the state is that of `before` again."""
        for path in sorted(after.keys() - before.keys(), reverse=True):
            with suppress(OSError):
                (os.rmdir if after[path] == "folder" else os.unlink)(path)
        return self.state() == before

    def remove(self) -> None:
        """Remove everything."""
        remove(self.home.parent)


def _state(folder: bytes) -> State:
    found, left = {}, [folder]
    while left:
        here = left.pop()
        found[here] = "folder"
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                else:
                    found[entry.path] = _described(entry)
    return found


def _described(entry: os.DirEntry[bytes]) -> str:
    status = entry.stat(follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return f"link to {os.readlink(entry.path)!r}"
    if not stat.S_ISREG(status.st_mode):
        return f"special {status.st_mode:o} {status.st_rdev}"
    with open(entry.path, "rb") as file:
        return f"file {hashlib.file_digest(file, 'sha256').hexdigest()}"


def changes(before: Mapping[bytes, str], after: Mapping[bytes, str], allowed: Iterable[bytes]) -> list[str]:
    """Paths that a command created, changed or removed although they are not its output.

    Args:
        before: State before the command.
        after: State after the command.
        allowed: Outputs: what lies below them, and missing folders above them, may be created or changed.
    """
    mine = tuple(allowed)
    found = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        inside = any(path == one or path.startswith(one + b"/") for one in mine)
        above = old is None and new == "folder" and any(one.startswith(path + b"/") for one in mine)
        special = old is not None and not old.startswith("file")
        if special or not (inside or above):
            found.append(f"{os.fsdecode(path)!r}: {old or 'nothing'} became {new or 'nothing'}")
    return found


# ------------------------------------------------------------------------------------------------------------- content


def _samples(home: Path) -> None:
    rng = np.random.default_rng(3)
    for name, shift in (("real", 0.0), ("fake", 0.7)):
        x = rng.normal(size=(60, 2)) + shift
        np.save(home / f"{name}.npy", x.astype(np.float32))
        np.save(home / f"{name}3.npy", np.c_[x, x[:, :1]].astype(np.float32))
        rows = [f"{a:.3f},{b:.3f},{'abc'[i % 3]}" for i, (a, b) in enumerate(x)]
        (home / f"{name}.csv").write_text("\n".join(["x,y,class", *rows]) + "\n")
        words = ["the cat", "a dog", "my house", "the sea"] if name == "real" else ["a dog", "the sky", "no house"]
        (home / f"{name}.txt").write_text("".join(f"{words[i % len(words)]} {i}\n" for i in range(60)))
        (home / f"labels-{name}.txt").write_text("".join(f"{'ab'[i % 2]}\n" for i in range(60)))
        for index in range(60):
            target = home / f"{name}-images" / "ab"[index % 2] / f"{index}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_picture(rng, 90 if name == "real" else 140))
    shutil.make_archive(str(home / "images"), "zip", home / "fake-images")
    for name in ("statistics.npz", "safetensors.safetensors", "parquet.parquet", "jsonl.jsonl"):
        made = {"statistics": readers._statistics, "safetensors": readers._safetensors, "parquet": readers._parquet,
                "jsonl": readers._jsonl}[name.partition(".")[0]]  # fmt: skip
        made(home / name)
    (home / "old").mkdir()
    (home / "old" / "note.txt").write_text("mine\n")
    for name in ("old.npy", "old.json", "old.txt", "old.html", "old.png"):
        (home / name).write_text("mine\n")


def _picture(rng: np.random.Generator, level: int) -> bytes:
    import io

    from PIL import Image

    made = io.BytesIO()
    Image.fromarray((rng.normal(level, 30, size=(6, 5, 3))).clip(0, 255).astype(np.uint8)).save(made, "PNG")
    return made.getvalue()


def _hostile(home: Path) -> None:
    array, text = (home / "fake.npy").read_bytes(), (home / "fake.txt").read_bytes()
    root = os.fsencode(home)
    for name in HOSTILE:
        _write(os.path.join(root, name + b".npy"), array)
        _write(os.path.join(root, name + b".txt"), text)
    images = os.path.join(root, b"hostile-images")
    os.mkdir(images)
    for index, name in enumerate(HOSTILE):
        _write(os.path.join(images, name + b".png"), readers.png(index % 2))
    (home / "folder.npy").mkdir()
    (home / "empty.npy").write_bytes(b"")
    (home / "garbage.npy").write_bytes(os.urandom(99))
    (home / "line.txt").write_text("word " * 20_000)
    os.mkfifo(home / "fifo.npy")
    os.mkfifo(home / "fifo.txt")
    (home / "fifos").mkdir()
    os.mkfifo(home / "fifos" / "a.png")
    for name, minor in (
        ("null.npy", 3),
        ("null.json", 3),
        ("zero.txt", 5),
        ("zero.npy", 5),
        ("zero.csv", 5),
        ("zero.jsonl", 5),
    ):
        with suppress(PermissionError):  # only root may make devices
            os.mknod(home / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    os.symlink("loop-b.npy", home / "loop-a.npy")
    os.symlink("loop-a.npy", home / "loop-b.npy")
    os.symlink("old.npy", home / "link.npy")
    os.symlink("nowhere", home / "broken.npy")
    os.symlink("old", home / "link")
    for name in "abcdefghij":  # folders that link to each other: a walk that follows links visits 10! paths
        (home / "circle" / name).mkdir(parents=True)
    (home / "circle" / "a" / "one.png").write_bytes(readers.png())
    for name in "abcdefghij":
        for other in "abcdefghij":
            os.symlink(f"../{other}", home / "circle" / name / f"to-{other}")
    _deep(home.parent / "deep")  # outside: too deep to be watched


def _write(path: bytes, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def _deep(top: Path) -> None:
    """A folder with one image, `DEEP` levels down."""
    path = str(top)
    for _ in range(DEEP):
        os.mkdir(path)
        path += "/d"
    os.mkdir(path)
    Path(path, "one.png").write_bytes(readers.png())
