"""Damage to files: blind changes of bytes, and changes that keep the checksums of a format valid.

Every function takes the random generator first and returns new bytes. A change that keeps checksums valid reaches the
code behind them: without it, nearly every damaged PNG or zip would be refused by its CRC.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes], bytes]

MAGIC = (
    b"\x93NUMPY\x01\x00", b"PK\x03\x04", b"PK\x05\x06", b"PAR1", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a",
    b"BM", b"RIFF\x00\x00\x00\x00WEBP", b"II*\x00", b"MM\x00*", b"P6\n1 1\n255\n", b"%!PS-Adobe", b"\x80\x04\x95",
    b"\xef\xbb\xbf", b"\xff\xfe", b"{", b"[", b'"', b"\x1f\x8b\x08",
)  # fmt: skip
EXTREME = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
NUMBERS = (
    "0", "-1", "1", "2", "1e999", "-1e999", "NaN", "Infinity", "1e308", "1e-320",
    "9" * 12, "9" * 30, "-" + "9" * 19, "0.5",
    "1" * 5000, "true", "null", '""', "[]", "{}",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 10**6, 10**18, 10**40, -(10**40), 0.5, -0.5, 1e308, -1e308, float("nan"),
    float("inf"),
    "", "x", "0", "nan", "\ud800", "\x00\x1b[31m", "a" * 3000, "../../etc/passwd", "os:system", [], {}, [[]], [None],
    [1, 2, 3], ["a"], {"a": 1}, {"": None}, [0.0] * 300,
)  # fmt: skip
TEXT = (
    b"\x00",
    b"\n" * 50,
    b"\r",
    b",",
    b'"',
    b"\t;",
    b"\xff\xfe",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"\\u0000",
    b"\\ud800",
)
DEEP, LONG = 100_000, 500_000  # brackets of a nested value; bytes of a long line


def mutated(rng: Random, content: bytes, own: Sequence[Mutation] = ()) -> bytes:
    """One to four changes of `content`, half of them of the kinds that the format itself offers.

    Args:
        rng: Source of randomness.
        content: A valid file.
        own: Changes that know the format, such as `json_node`.
    """
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(own if own and rng.random() < 0.5 else BLIND)(rng, content)
    return content


# --------------------------------------------------------------------------------------------------------------- blind


def flip_bits(rng: Random, content: bytes) -> bytes:
    """One to eight bits."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 8) if content else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(rng: Random, content: bytes) -> bytes:
    """A beginning of the file, sometimes empty."""
    return content[: rng.choice((0, 1, rng.randint(0, len(content)), max(0, len(content) - rng.randint(1, 9))))]


def overwrite(rng: Random, content: bytes) -> bytes:
    """An extreme number in the place of one to eight bytes, often near the beginning, where headers are."""
    size = rng.choice((1, 2, 4, 8))
    number = (rng.choice(EXTREME) & ((1 << 8 * size) - 1)).to_bytes(size, rng.choice(("little", "big")))
    at = rng.randint(0, min(len(content), rng.choice((64, 512, len(content)))))
    return content[:at] + number + content[at + size :]


def insert(rng: Random, content: bytes) -> bytes:
    """Random bytes, control characters or line ends somewhere."""
    at = rng.randint(0, len(content))
    return content[:at] + rng.choice((rng.randbytes(rng.randint(1, 64)), rng.choice(TEXT))) + content[at:]


def remove(rng: Random, content: bytes) -> bytes:
    """Without a block."""
    start, stop = _block(rng, content)
    return content[:start] + content[stop:]


def duplicate(rng: Random, content: bytes) -> bytes:
    """A block two to twenty times."""
    start, stop = _block(rng, content)
    return content[:stop] + content[start:stop] * rng.randint(1, 19) + content[stop:]


def splice(rng: Random, content: bytes) -> bytes:
    """A block copied over another place."""
    start, stop = _block(rng, content)
    at = rng.randint(0, len(content))
    return content[:at] + content[start:stop] + content[at + stop - start :]


def swap_magic(rng: Random, content: bytes) -> bytes:
    """The first bytes of another format."""
    magic = rng.choice(MAGIC)
    return magic + content[rng.choice((0, len(magic))) :]


def replace_number(rng: Random, content: bytes) -> bytes:
    """An extreme number in the place of one that is written in digits."""
    found = list(re.finditer(rb"-?[0-9]+(\.[0-9]+)?", content[:20_000]))
    if not found:
        return overwrite(rng, content)
    one = rng.choice(found)
    return content[: one.start()] + rng.choice(NUMBERS).encode() + content[one.end() :]


def nest(rng: Random, content: bytes) -> bytes:
    """Brackets, a hundred thousand deep. Rare, because they take time to write."""
    if rng.random() < 0.9:
        return insert(rng, content)
    at = rng.choice((0, rng.randint(0, len(content))))
    return content[:at] + rng.choice((b"[", b'{"a":', b"(", b"<")) * DEEP + content[at:]


def lengthen(rng: Random, content: bytes) -> bytes:
    """One very long line. Rare, because it takes time to read."""
    if rng.random() < 0.98:
        return truncate(rng, content)
    at = rng.randint(0, len(content))
    return content[:at] + (rng.choice((b"a", b"ab c", b"9", b",", b"\xc3\xa9", b"\x00")) * LONG)[:LONG] + content[at:]


def _block(rng: Random, content: bytes) -> tuple[int, int]:
    start = rng.randint(0, len(content))
    return start, min(len(content), start + rng.choice((1, 4, 16, 256, 4096)))


BLIND: tuple[Mutation, ...] = (
    flip_bits, flip_bits, truncate, overwrite, overwrite, insert, remove, duplicate, splice, swap_magic, replace_number,
    nest, lengthen,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------- formats from inside


def json_node(rng: Random, content: bytes) -> bytes:
    """A value anywhere in a JSON document becomes another, or its key is renamed, removed or repeated."""
    try:
        return json.dumps(_changed(rng, json.loads(content))).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return flip_bits(rng, content)


def json_line(rng: Random, content: bytes) -> bytes:
    """`json_node` in one line of a file of JSON lines."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join([*lines[:at], json_node(rng, lines[at]), *lines[at + 1 :]])


def _changed(rng: Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        kind = rng.random()
        if kind < 0.1:
            return {name: one for name, one in value.items() if name != key}
        if kind < 0.15:
            return {(str(rng.choice(VALUES)) if name == key else name): one for name, one in value.items()}
        return {name: _changed(rng, one) if name == key else one for name, one in value.items()}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        kind = rng.random()
        if kind < 0.1:
            return value[:at] + value[at + 1 :]
        return [*value[:at], _changed(rng, value[at]), *value[at + (kind > 0.2) :]]
    return rng.choice(VALUES)


def npy_header(rng: Random, content: bytes) -> bytes:
    """Another shape, dtype or order in the header of an array, with its length kept consistent."""
    shape = rng.choice(("()", "(0,)", "(3,)", "(-1, 4)", "(0, 0)", "(2, 0)", "(99999999999, 4)",
                        "(4294967296, 4294967296)",
                        "(1,) * 99", "(2, 2, 2, 2, 2, 2)", "(True, 4)", "(1.5, 2)", "[60, 4]", "'a'", "60",
                        "(30, 8)"))  # fmt: skip
    dtype = rng.choice(("'<f8'", "'>f4'", "'<f2'", "'|O'", "'|S8'", "'<U3'", "'<M8[s]'", "'<c16'", "'|V0'",
                        "'|b1'", "'<i8'",
                        "[('a', '<f4'), ('b', '|O')]", "'nonsense'", "None", "'<f4,<f4'", "'|S0'"))  # fmt: skip
    descr = rng.choice((dtype, "'<f4'"))
    text = f"{{'descr': {descr}, 'fortran_order': {rng.choice(('True', 'False', 'None', '7'))}, 'shape': {shape}, }}"
    data = content[128 + rng.choice((0, 0, rng.randint(0, 64))) :]
    head = text.encode().ljust(117) + b"\n"
    version, length = rng.choice(((b"\x01\x00", "<H"), (b"\x02\x00", "<I"), (b"\x03\x00", "<I"), (b"\x09\x00", "<H")))
    return b"\x93NUMPY" + version + struct.pack(length, len(head)) + head + data


def tensor_header(rng: Random, content: bytes) -> bytes:
    """Another value in the JSON header of a safetensors file, with its length kept consistent."""
    (size,) = struct.unpack("<Q", content[:8].ljust(8, b"\0"))
    if size > len(content):
        return flip_bits(rng, content)
    head = json_node(rng, content[8 : 8 + size])
    return struct.pack("<Q", len(head)) + head + content[8 + size :]


def zip_members(inside: Mutation) -> Mutation:
    """Change a member of a zip with `inside`, or its name, and write a zip with valid checksums."""

    def change(rng: Random, content: bytes) -> bytes:
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [(one.filename, archive.read(one)) for one in archive.infolist()]
        except Exception:  # the zip is damaged already
            return flip_bits(rng, content)
        at = rng.randrange(len(members)) if members else 0
        for place, (name, data) in enumerate(members[at : at + 1], start=at):
            members[place] = (_renamed(rng, name), data) if rng.random() < 0.3 else (name, inside(rng, data))
        return _zipped(members, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))

    return change


def _renamed(rng: Random, name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    hostile = ("", "../" + name, "/" + name, "a\n" + name, "\udc80" + name, "a" * 3000 + name, "CON",
    "a\\..\\" + name, "." + name,
               stem, f"{stem}{dot}{suffix.upper()}", "\x1b[31m" + name, "mu.npy", "sigma.npy", "n.npy",
               "a/" * 1200 + name)  # fmt: skip
    return rng.choice(hostile)


def _zipped(members: Sequence[tuple[str, bytes]], compression: int) -> bytes:
    """A zip of the members. Names that `zipfile` refuses to encode are written with replacement characters."""
    made = io.BytesIO()
    seen: set[str] = set()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, data in members:
            plain = name.encode("utf-8", "replace").decode()
            if plain not in seen:
                archive.writestr(zipfile.ZipInfo(plain), data, compression)
            seen.add(plain)
    return made.getvalue()


def png_chunk(rng: Random, content: bytes) -> bytes:
    """Other bytes in one chunk of a PNG, with a valid checksum."""
    chunks, at = [], 8
    while at + 12 <= len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        chunks.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    if not chunks:
        return flip_bits(rng, content)
    place = rng.randrange(len(chunks))
    kind, data = chunks[place]
    data = rng.choice((flip_bits, overwrite, truncate, duplicate))(rng, data)
    chunks[place] = (rng.choice((kind, kind, kind, b"tEXt", b"acTL", b"tRNS", b"PLTE", b"iCCP", b"zTXt")), data)
    if rng.random() < 0.2:
        chunks.insert(place, rng.choice(chunks))
    return content[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def csv_cell(rng: Random, content: bytes) -> bytes:
    """Another value in one cell of a table."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    cells = lines[at].split(b",")
    values = (
        b"",
        b"nan",
        b"1e999",
        b"-1e999",
        b"1e308",
        b"9" * 400,
        b'"',
        b'"a\nb"',
        b"\xff",
        b"=1+1",
        b"1_000",
        b" ",
        b"x" * 5000,
    )
    cells[rng.randrange(len(cells))] = rng.choice(values)
    return b"\n".join([*lines[:at], b",".join(cells), *lines[at + 1 :]])
