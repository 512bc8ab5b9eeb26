"""Files of kinds that a format does not expect: other encodings, one format under the name of another, odd places.

Each item is a small set of files and one command on them. A command must end within 20 CPU seconds and 2 GB, with a
status that `precall --help` lists, and without a traceback.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import struct
import tarfile
import tempfile
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.attacks import readers
from benchmarks.attacks.children import CPU_LIMIT, MEMORY_LIMIT, Child, precall, remove
from benchmarks.attacks.findings import Tally

Words = Sequence[str]
Odd = Callable[[Random, Path], Words]  # writes files into the folder and returns a command
STATUSES = (0, 1, 2, 3)
QUICK = ("--metrics", "fid,clusters")


def assess(real: str, fake: str, *more: str) -> Words:
    """The command that most items are read by."""
    return ("assess", "--real", real, "--fake", f"m={fake}", *QUICK, *more)


# ------------------------------------------------------------------------------------------------------- texts, tables

CELLS = (
    "1",
    "-0",
    "1e999",
    "1e-999",
    "9" * 5000,
    "0x1f",
    "1_000",
    "٣٤",
    "−1",
    "½",
    "nan",
    "inf",
    "-inf",
    "NULL",
    "N/A",
    "",
    " ",
    "true",
    "1,5",
    "1.234.567,8",
    "1 000",
    "€5",
    "50%",
    "2024-02-30",
    "0000-00-00",
    "99999-01-01",
    "24:61",
    "2024-01-01T00:00:00+99:00",
    "a\x00b",
    "\ufeff",
    "\u2028",
    "é" * 300,
    "=cmd()",
    '""',
    "'",
    "\\",
    "\x1b[2J",
    "\ud83d",
    "1" * 400 + "e-400",
    "1e" + "9" * 400,
    "12:30",
    "1/2",
    "31.12.1999",
    "١٩٩٩-٠١-٠١",
    "Infinity",
    "1d5",
    "۱",
)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252", "utf-7", "shift_jis", "cp037")
ENDS = ("\n", "\r\n", "\r", "\n\n", "\x0b", "\x0c", "\u2028", "\x85", "\n\r")


def _encoded(rng: Random, text: str) -> bytes:
    encoding = rng.choice(ENCODINGS) if rng.random() < 0.3 else "utf-8"
    data = text.encode(encoding, "surrogatepass" if encoding.startswith("utf") and encoding != "utf-7" else "replace")
    data = (
        data.replace(b"a", rng.choice((b"\0", b"\xff", b"\xc0\x80", b"\xed\xa0\x80"))) if rng.random() < 0.1 else data
    )
    return rng.choice((b"", b"", b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\0")) + data


def table(rng: Random, home: Path) -> Words:
    """Odd cells, headers, delimiters, line ends and encodings."""
    suffix = rng.choice((".csv", ".tsv"))
    sign, end = rng.choice((",", ",", ";", "\t", "|", ", ", ",,", "")), rng.choice(("\n", "\n", "\n", rng.choice(ENDS)))
    columns, odd = rng.choice((1, 2, 3, 3, 5, 40)), rng.choice(CELLS)
    head = [
        rng.choice(("x", "x", "", "a b", '"q"', "1", "x (2)", "é", "column 2", odd)) + str(i % 3)
        for i in range(columns)
    ]
    for name in ("real", "fake"):
        rows = [
            [
                rng.choice((odd, rng.choice(CELLS), f"{rng.gauss(0, 1):.3f}", "abc"[rng.randrange(3)]))
                if rng.random() < 0.5
                else str(rng.randrange(9))
                for _ in range(columns + (rng.random() < 0.02))
            ]
            for _ in range(rng.choice((1, 2, 30, 30)))
        ]
        lines = [sign.join(row) for row in ([head] if rng.random() < 0.8 else []) + rows]
        (home / f"{name}{suffix}").write_bytes(_encoded(rng, end.join(lines) + rng.choice(("", end, '"', end * 50))))
    return assess(f"real{suffix}", f"fake{suffix}", "--on-error", rng.choice(("fail", "skip")))


def wide(rng: Random, home: Path) -> Words:
    """Very many columns, empty or of one name, or a cell of megabytes."""
    width = rng.choice((10**4, 10**5, 10**6, 4 * 10**6))
    sign = rng.choice((",", "\t"))
    line = rng.choice((sign * width, sign.join(["x"] * width), sign.join(map(str, range(width))), "a" * width))
    text = rng.choice((f"{line}\n{line}\n{line}\n", f"a{sign}b\n{line}\n1{sign}2\n", f"{line}\n1{sign}2\n2{sign}3\n"))
    (home / "a.csv").write_text(text)
    return assess("a.csv", "a.csv", "--on-error", rng.choice(("fail", "skip")))


def long(rng: Random, home: Path) -> Words:
    """Very many lines that are empty, uneven or quoted, or a hole in the place of the file."""
    n = rng.choice((10**5, 10**6, 3 * 10**7))
    text = rng.choice(("\n" * n, "a\n" + "1,2\n" * (n // 8), 'a,b\n"' + "x\n" * n, "a,b\n" + '""' * n + ",1\n", ""))
    (home / "a.csv").write_text(text)
    if not text:
        os.truncate(home / "a.csv", 500 << 20)
    return assess("a.csv", "a.csv", "--on-error", rng.choice(("fail", "skip")))


def typed(rng: Random, home: Path) -> Words:
    """Columns of every Arrow type with extreme values: dates out of range, missing everything, odd time zones."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = [
        rng.choice((0, 1, -1, 2**31 - 1, 2**62, -(2**63), 2**63 - 1, None, rng.randrange(10**9))) for _ in range(60)
    ]
    zone = rng.choice((None, "UTC", "Europe/Rome", "+05:30", "Nowhere/None", "\U0001f600"))
    kinds = [pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns")] + [pa.int64(), pa.duration("ns")]
    columns = {f"c{i}": pa.array(whole, pa.int64()).view(kind) for i, kind in enumerate(rng.sample(kinds, 3))}
    columns["half"] = pa.array([rng.choice((0.5, float("inf"), float("nan"), None)) for _ in whole], pa.float16())
    columns["coded"] = pa.array([rng.choice(("a", "", None, "a" * 9999)) for _ in whole]).dictionary_encode()
    columns["none"] = pa.nulls(60, rng.choice((pa.null(), pa.int8(), pa.date32(), pa.bool_(), pa.decimal128(9, 2))))
    for name in ("real.parquet", "fake.parquet"):
        try:
            pq.write_table(pa.table(columns), home / name)
        except (ValueError, pa.ArrowException):  # what Parquet cannot store
            pq.write_table(pa.table({"x": range(60)}), home / name)
    return assess("real.parquet", "fake.parquet")


def lines(rng: Random, home: Path) -> Words:
    """Texts of odd characters, lengths and line ends."""
    odd = rng.choice(
        (*CELLS, "\0" * 99, "a\u0300" * 5000, "👩‍👩‍👧" * 300, "\u202e", "a" * (1 << 20), " " * 9999, "\U000e0001" * 99)
    )
    end = rng.choice(("\n", "\n", rng.choice(ENDS)))
    for name in ("real.txt", "fake.txt"):
        texts = [odd if rng.random() < 0.4 else f"a text {rng.randrange(99)}" for _ in range(rng.choice((1, 3, 40)))]
        (home / name).write_bytes(_encoded(rng, end.join(texts)))
    return assess("real.txt", "fake.txt", "--on-error", rng.choice(("fail", "skip")))


def records(rng: Random, home: Path) -> Words:
    """JSON lines of odd values, depth, numbers and keys."""
    deep = rng.choice((10, 400, 900, 990, 5000, 200_000))
    odd = rng.choice(
        (
            "[" * deep + "]" * deep,
            '{"a":' * deep + '"x"' + "}" * deep,
            "9" * 5000,
            "-1e99999",
            "NaN",
            "null",
            "[]",
            "{}",
            '{"text": ["a"]}',
            '{"text": {"text": "a"}}',
            '{"text": 5}',
            '{"text": null}',
            '{"text":"\\ud83d"}',
            '"\\u0000"',
            '{"text":"a","text":"b"}',
            '{"' + "k" * 100_000 + '":"x"}',
            "\ufeff{}",
            '{"text":"' + "a" * (1 << 20) + '"}',
            "[" + "{}," * 300_000 + "{}]",
            '{"text":"\x01"}',
            "{'text':'a'}",
            '{"text":"a"} x',
            "tru",
            '"' * 999,
        )
    )
    key = rng.choice(
        (None, None, "text", "a", ".".join("a" * deep)[:100_000], "0", "-1", "text.0", "..", "", "\0", "٣")
    )
    for name in ("real.jsonl", "fake.jsonl"):
        texts = [
            odd if rng.random() < 0.5 else json.dumps({"text": f"a {rng.randrange(99)}", "a": "b"}) for _ in range(30)
        ]
        (home / name).write_bytes(_encoded(rng, "\n".join(texts)))
    more = () if key is None else ("--key", f"real={key}", "--key", f"m={key}")
    return assess("real.jsonl", "fake.jsonl", "--on-error", rng.choice(("fail", "skip")), *more)


# -------------------------------------------------------------------------------------------------------------- images


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


@cache
def _bomb(size: int = 10**8) -> bytes:
    return zlib.compress(bytes(size))


def _png(rng: Random) -> bytes:
    """A PNG of an odd size, with odd chunks."""
    width, height = rng.choice(
        ((1, 1), (0, 5), (1, 65535), (65535, 1), (9000, 9000), (2**31 - 1, 1), (300, 300), (5, 6))
    )
    depth, colour = rng.choice(((8, 2), (8, 6), (16, 2), (16, 0), (1, 0), (8, 3), (2, 3), (8, 4), (3, 9)))
    size = min(width * height * 4 + height, 10**7)
    body = zlib.compress(bytes(rng.choice((size, size // 2, 10))), rng.choice((0, 9)) if size < 10**6 else 9)
    extra = rng.choice(
        (
            b"",
            _chunk(b"zTXt", b"a\0\0" + _bomb()),
            _chunk(b"iCCP", b"a\0\0" + _bomb()),
            _chunk(b"tEXt", b"a\0" + b"x" * 10**6),
            _chunk(b"acTL", struct.pack(">II", 2**31, 0)),
            _chunk(b"eXIf", b"II*\0" * 99),
            _chunk(b"tRNS", b"\0" * 300),
            _chunk(b"gAMA", b"\0" * 4),
            _chunk(b"pHYs", b"\xff" * 9),
            _chunk(b"tEXt", b"a\0b") * 50_000,
            _chunk(b"iTXt", b"a\0\1\0\0\0" + _bomb()),
            _chunk(b"PLTE", b"\1\2\3" * 256),
        )
    )
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, rng.choice((0, 0, 1, 9)))
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + extra + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _saved(rng: Random) -> bytes:
    """An image of any format and mode, with odd data beside it."""
    from PIL import Image

    mode = rng.choice(("RGB", "L", "P", "RGBA", "CMYK", "1", "LA", "I;16", "F", "I", "YCbCr", "LAB", "HSV"))
    image = Image.new(mode, rng.choice(((5, 6), (1, 1), (3000, 2), (2, 3000), (64, 64))))
    form = rng.choice(("PNG", "JPEG", "WEBP", "GIF", "BMP", "PPM", "TIFF", "ICO", "TGA", "PDF", "JPEG2000", "DDS"))
    options: dict[str, Any] = rng.choice(
        (
            {},
            {"exif": b"Exif\0\0II*\0" + b"\xff" * 99},
            {"save_all": True, "append_images": [image] * 300},
            {"comment": b"x" * 65000},
            {"icc_profile": b"\xff" * 70_000},
            {"progressive": True},
            {"compression": "tiff_deflate"},
        )
    )
    made = io.BytesIO()
    try:
        image.save(made, form, **options)
    except Exception:  # not every mode fits every format
        image.convert("RGB").save(made, "PNG")
    return made.getvalue()


def _scans(rng: Random) -> bytes:
    """A progressive JPEG that repeats its last scan very often: each pass takes as long as the first."""
    from PIL import Image

    made = io.BytesIO()
    side = rng.choice((500, 2000, 5000))
    Image.new("L", (side, side)).save(made, "JPEG", progressive=True)
    data = made.getvalue()
    at = data.rindex(b"\xff\xda")
    return data[:at] + data[at:-2] * rng.choice((10, 1000, 50_000)) + b"\xff\xd9"


def _plain(rng: Random) -> bytes:
    """A PPM with odd numbers or comments in its header."""
    size = rng.choice(
        ("5 6", "99999 99999", "0 5", "-5 6", "5 6" + "#" * 10**6 + "\n", "00000000005 6", "5\0 6", "5.0 6")
    )
    return f"P{rng.choice('1234567f')}\n{size} {rng.choice(('255', '65535', '0', '9' * 99))}\n".encode() + bytes(200)


def pictures(rng: Random, home: Path) -> Words:
    """Odd image files in a folder, a zip or a tar."""
    contents = [rng.choice((_png, _png, _saved, _saved, _scans, _plain))(rng) for _ in range(rng.choice((1, 2, 4)))]
    files = {
        f"{i}.{rng.choice(('png', 'jpg', 'gif', 'tiff'))}": one for i, one in enumerate([readers.png(), *contents])
    }
    where = rng.choice(("images", "images", "a.zip", "a.tar"))
    if where == "images":
        (home / where).mkdir()
        for name, content in files.items():
            (home / where / name).write_bytes(content)
    elif where == "a.zip":
        with zipfile.ZipFile(home / where, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    else:
        with tarfile.open(home / where, "w") as tar:
            for name, content in files.items():
                readers._add(tar, name, content)
    return (
        "encode",
        where,
        "--encoder",
        rng.choice(("pixels", "pixels", "color")),
        "--on-error",
        rng.choice(("fail", "skip")),
        "--out",
        "out.npy",
    )


# ------------------------------------------------------------------------------------------------------------ archives


def archives(rng: Random, home: Path) -> Words:
    """A zip with odd names, methods, flags and sizes."""
    names = (
        "/etc/passwd.png",
        "../a.png",
        "C:\\a.png",
        "a\0b.png",
        "a.png/",
        "é.png",
        "\x1b[2J.png",
        "a" * 6000 + ".png",
        "a.png",
        "./a.png",
    )
    made = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(made, "w", method) as archive:
        for i in range(rng.choice((1, 3, 300, 3000))):
            info = zipfile.ZipInfo("x")
            info.filename = rng.choice(names) if rng.random() < 0.5 else f"{i}.png"
            info.external_attr = rng.choice((0, 0o120777 << 16, 0o010666 << 16))  # a link, a pipe
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that are there twice
                archive.writestr(info, readers.png() if i < 300 else b"", method)
        archive.comment = rng.choice((b"", b"PK\5\6" * 99, b"x" * 65535))
    data = bytearray(made.getvalue())
    if rng.random() < 0.5:
        mark = rng.choice((b"PK\1\2", b"PK\3\4", b"PK\5\6"))
        at = data.find(mark) + rng.randrange(4, 30)
        data[at : at + 2] = rng.randbytes(2)
    if method == zipfile.ZIP_LZMA and rng.random() < 0.7:
        at = data.find(b"PK\3\4")
        start = (
            at
            + 30
            + int.from_bytes(data[at + 26 : at + 28], "little")
            + int.from_bytes(data[at + 28 : at + 30], "little")
        )
        data[start + 5 : start + 9] = b"\xff\xff\xff\xff"  # the size of the dictionary
    (home / "a.zip").write_bytes(rng.choice((b"", b"", b"MZ" * 999)) + bytes(data))
    return ("encode", "a.zip", "--encoder", "pixels", "--on-error", rng.choice(("fail", "skip")), "--out", "out.npy")


def tars(rng: Random, home: Path) -> Words:
    """A tar with links, devices, odd names, twice the same name, or another archive behind it."""
    made = io.BytesIO()
    with tarfile.open(
        fileobj=made, mode="w", format=rng.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT))
    ) as tar:
        for i in range(rng.choice((1, 3, 2000))):
            info = tarfile.TarInfo(
                rng.choice(
                    (
                        f"{i}.png",
                        "a.png",
                        "/a.png",
                        "../b.png",
                        "a/./b.png",
                        "x" * 90 + ".png",
                        ".png",
                        "a.png.png",
                        "é.png",
                        "a.b.c.txt",
                    )
                )
            )
            info.type = rng.choice(
                (
                    tarfile.REGTYPE,
                    tarfile.REGTYPE,
                    tarfile.SYMTYPE,
                    tarfile.LNKTYPE,
                    tarfile.FIFOTYPE,
                    tarfile.CHRTYPE,
                    tarfile.DIRTYPE,
                )
            )
            info.linkname = rng.choice(("/etc/passwd", "a.png", info.name))
            content = readers.png() if info.isreg() else b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    data = made.getvalue()
    data = rng.choice(
        (data, data * 2, data[:-1024], data[:600], zlib.compress(data), data.rstrip(b"\0"), b"\0" * 1024 + data)
    )
    (home / "a.tar").write_bytes(data)
    return ("encode", "a.tar", "--encoder", "pixels", "--on-error", rng.choice(("fail", "skip")), "--out", "out.npy")


# ------------------------------------------------------------------------------------- one format named as another one


@cache
def contents() -> dict[str, bytes]:
    """A valid file of every format, by suffix."""
    from precall import Reference

    found: dict[str, bytes] = {
        ".png": readers.png(),
        ".json": b'{"a": 1}',
        ".html": b"<p>",
        ".pkl": b"\x80\4N.",
        "": b"#!/bin/sh\n",
    }
    makes: dict[str, Callable[[Path], object]] = {
        ".npy": lambda path: np.save(path, readers.matrix()),
        ".npz": readers._npz,
        ".safetensors": readers._safetensors,
        ".parquet": readers._mixed_parquet,
        ".csv": readers._csv,
        ".tsv": readers._tsv,
        ".txt": readers._txt,
        ".jsonl": readers._jsonl,
        ".zip": readers._zip,
        ".tar": readers._tar,
        ".arrow": readers._arrow,
        ".h5": readers._hdf5,
        ".precall": lambda path: Reference.fit(readers.matrix(80), k=3).save(path),
        ".sketch": lambda path: Reference.fit(readers.matrix(80), k=3).sketch(readers.matrix(60) + 1).save(path),
    }
    with tempfile.TemporaryDirectory() as folder:
        for suffix, make in makes.items():
            path = Path(folder) / f"a{suffix}"
            make(path)
            found[suffix] = path.read_bytes()
    return found


def misnamed(rng: Random, home: Path) -> Words:
    """A file of one format under the name of another, in any command."""
    data = contents()[rng.choice(list(contents()))]
    data = rng.choice((data, data, data, b"", data[:1], data + b"\0" * 999, data * 2, b"\0" * 4096, b"\xff" * 99))
    name = f"a{rng.choice((*contents(), '.gz', '.mdb', '.HDF5', '.PNG'))}"
    (home / name).write_bytes(data)
    np.save(home / "real.npy", readers.matrix())
    (home / "run").mkdir()
    for other in ("run.json", "log.jsonl", "checkpoint.safetensors", "results.json", "galleries.json"):
        (home / "run" / other).write_bytes(data)
    return rng.choice(
        (
            assess(name, name),
            assess("real.npy", name),
            assess(name, "real.npy"),
            ("encode", name, "--out", "out.npy"),
            ("reference", "make", name, "--out", "out.precall"),
            ("reference", "merge", name, name, "--json"),
            ("report", name),
            ("report", "run", "--out", "out.html"),
            ("tune", "--resume", "--out", "run", "--device", "cpu"),
            ("reference", "sketch", "--real", name, "--fake", "real.npy", "--out", "out.sketch"),
            ("report", "run"),
            ("improve", "--real", name, "--fake", name, "--budget", "2"),
            assess("real.npy", "real.npy", "--holdout", name),
            assess("real.npy", "real.npy", "--groups", f"real={name}", "--groups", f"m={name}"),
            ("tune", "--data", name, "--steps", "1", "--out", "made", "--device", "cpu"),
        )
    )


# -------------------------------------------------------------------------------------------------------------- places


def _place(rng: Random, path: Path) -> None:
    """Something other than a file at a path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    kind = rng.randrange(8)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(path.name)
    elif kind == 3:
        path.symlink_to("/dev/zero")
    elif kind == 4:
        path.symlink_to("/dev/null")
    elif kind == 5:
        with socket.socket(socket.AF_UNIX) as bound:
            here = os.getcwd()
            os.chdir(path.parent)
            bound.bind(path.name[:90])
            os.chdir(here)
    elif kind == 6:
        path.symlink_to("/proc/self/mem")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)


def places(rng: Random, home: Path) -> Words:
    """A pipe, a folder, a device, a socket, a loop or a hole of a terabyte in the place of a file."""
    suffix = rng.choice(
        (
            ".npy",
            ".npz",
            ".csv",
            ".txt",
            ".jsonl",
            ".zip",
            ".tar",
            ".parquet",
            ".arrow",
            ".h5",
            ".png",
            ".safetensors",
            ".precall",
            ".sketch",
            ".json",
        )
    )
    np.save(home / "real.npy", readers.matrix())
    (home / "images").mkdir()
    (home / "images" / "0.png").write_bytes(readers.png())
    shutil.copytree(_saved_report(), home / "saved")
    target = rng.choice(
        (
            home / f"a{suffix}",
            home / "images" / f"a{suffix}",
            home / "saved" / "results.json",
            home / "saved" / "galleries.json",
            home / "labels.txt",
        )
    )
    _place(rng, target)
    return rng.choice(
        (
            assess("real.npy", f"a{suffix}"),
            assess(f"a{suffix}", "real.npy"),
            ("encode", "images", "--encoder", "pixels", "--on-error", rng.choice(("fail", "skip")), "--out", "out.npy"),
            ("report", "saved", "--out", "out.html"),
            ("report", "saved"),
            assess("real.npy", "real.npy", "--groups", "real=labels.txt"),
            ("report", f"a{suffix}"),
            ("reference", "merge", f"a{suffix}"),
            ("tune", "--data", f"a{suffix}", "--steps", "1", "--out", "run", "--device", "cpu"),
        )
    )


@cache
def _saved_report() -> Path:
    """A report, made once."""
    import atexit

    import precall as library
    from precall.report import folder as report

    place = Path(tempfile.mkdtemp(prefix="attack-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    found = library.assess(real=readers.matrix(), fake={"m": readers.matrix() + 1}, metrics=("clusters", "fid"))
    report.write(found, place / "saved", command="precall assess")
    return place / "saved"


def caches(rng: Random, home: Path) -> Words:
    """Something else in the place of a file or a folder of the cache."""
    (home / "images").mkdir()
    for i in range(3):
        (home / "images" / f"{i}.png").write_bytes(readers.png(i))
        os.utime(home / "images" / f"{i}.png", (1e9, 1e9))
    words = assess("images", "images", "--encoder", "pixels")
    precall(words, home, environment=_environment(home)).wait()
    known = sorted(path for path in (home / "cache").rglob("*"))
    for path in rng.sample(known, min(len(known), rng.choice((1, 1, 3)))):
        if os.path.lexists(path):
            _place(rng, path)
    return words


def changing(rng: Random, home: Path) -> Words:
    """A file that grows, shrinks, vanishes or becomes another one while it is read."""
    suffix = rng.choice((".csv", ".txt", ".jsonl", ".zip", ".tar", ".parquet", ".arrow", ".h5", ".npz", ".safetensors"))
    data = contents()[suffix]
    path = home / f"a{suffix}"
    path.write_bytes(data)

    def change() -> None:
        end = time.monotonic() + 3
        while time.monotonic() < end:
            kind = rng.randrange(4)
            try:
                if kind == 0:
                    path.write_bytes(data[: rng.randrange(len(data))] if suffix != ".arrow" else data)
                elif kind == 1:
                    path.unlink()
                elif kind == 2:
                    with path.open("ab") as file:
                        file.write(b"\0" * 99)
                (home / "new").write_bytes(rng.choice((data, data[::-1])))
                os.replace(home / "new", path)
            except OSError:
                pass
            time.sleep(0.002)

    threading.Thread(target=change, daemon=True).start()
    return assess(
        f"a{suffix}", f"a{suffix}", *(("--key", "real=text", "--key", "m=text") if suffix == ".arrow" else ())
    )


def settings(rng: Random, home: Path) -> Words:
    """Saved results, galleries and settings of which a value is another one."""
    shutil.copytree(_saved_report(), home / "saved")
    path = home / "saved" / rng.choice(("results.json", "results.json", "galleries.json"))
    if path.exists():
        known = json.loads(path.read_text())
        parent, key, node = [known], 0, known
        while isinstance(node, (dict, list)) and node and rng.random() < 0.8:
            key = rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
            parent, node = node, node[key]
        odd = rng.choice(
            (
                None,
                [],
                {},
                "",
                "<script>",
                -1,
                0,
                1e308,
                float("nan"),
                10**400,
                True,
                "\ud800",
                [[[]]] * 9,
                {"": {}},
                "x" * 10**5,
                [1] * 10**5,
            )
        )
        if rng.random() < 0.3 and isinstance(parent, dict):
            del parent[key]
        else:
            parent[key] = odd
        path.write_text(json.dumps(known))
    if rng.random() < 0.1:
        path.write_text(rng.choice(("[" + "{}," * 20_000_000 + "{}]", "{}", "[]", "nul", "[" * 10**6)))
    return rng.choice(
        (
            ("report", "saved"),
            ("report", "saved", "--out", "out.html"),
            ("report", "saved", "--out", "out.png"),
            ("report", "saved", "--json"),
        )
    )


ODD: dict[str, Odd] = {
    "odd tables": table,
    "wide tables": wide,
    "long tables": long,
    "typed tables": typed,
    "odd texts": lines,
    "odd records": records,
    "odd images": pictures,
    "odd zips": archives,
    "odd tars": tars,
    "misnamed": misnamed,
    "odd places": places,
    "odd caches": caches,
    "changing files": changing,
    "odd settings": settings,
}


def _environment(home: Path) -> dict[str, str]:
    for name in ("cache", "tmp"):
        (home / name).mkdir(exist_ok=True)
    return {"PRECALL_CACHE": str(home / "cache"), "TMPDIR": str(home / "tmp"), "HOME": str(home / "tmp")}


def judged(child: Child) -> tuple[str, str]:
    """How a command ended: `done`, or the kind of a finding with its detail."""
    peak = 0
    start = time.monotonic()
    while not child.ended():
        peak = max(peak, _peak(child.pid))
        if child.cpu() > CPU_LIMIT or time.monotonic() > start + 10 * CPU_LIMIT:
            child.signal(9)
            child.late = True
        time.sleep(0.005)
    outcome = child.wait()
    said = outcome.err.strip()[-300:]
    if outcome.late:
        return "slow", said
    if outcome.status not in STATUSES or "Traceback (most recent call last)" in outcome.err:
        return ("crash" if outcome.status < 0 else "status"), f"{outcome.status}: {outcome.err.strip()[-600:]}"
    if peak > MEMORY_LIMIT:
        return "memory", f"{peak:,} bytes; {said}"
    return ("silent", f"status {outcome.status}") if outcome.status and not said else ("done", "")


def _peak(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) << 10
    except (OSError, IndexError):
        return 0


def run(name: str, seed: int, first: int, last: int, deadline: float | None = None) -> Tally:
    """Try `last` - `first` items of a kind."""
    tally = Tally(next=first)
    for index in range(first, last):
        if deadline is not None and time.monotonic() > deadline:
            break
        home = Path(tempfile.mkdtemp(prefix="attack-"))
        rng = Random(f"{seed} {name} {index}")
        words = ODD[name](rng, home)
        kind, detail = judged(precall(words, home, environment=_environment(home), memory=3 * MEMORY_LIMIT))
        remove(home)
        told = f"{' '.join(words)[:120]}: {detail}" if detail else ""
        tally.add([{"target": name, "seed": seed, "index": index, "kind": kind, "detail": told}])
    return tally
