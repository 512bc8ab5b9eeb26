"""Valid files with one field changed: each change knows its format, and mends all lengths and checksums after it.

Blind damage is refused by the first checksum. These files reach the code behind it: other sizes in headers, members of
one name twice, values that are shared by very many rows, arrays that do not belong to their settings.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.attacks import mutations
from benchmarks.attacks.mutations import EXTREME, Mutation

LARGEST = 1 << 24  # bytes of a file
SECRET = "secret.txt"  # beside the folder of the attack; nothing may read it
NAMES = ("a.txt", "../secret.txt", "/etc/passwd", "a" * 300, "", "\x1b[2J.txt", "a/../../secret.txt", "ü.txt", ".a.txt")


def number(rng: Random, most: int = 64) -> int:
    """A small number, an extreme one, or any."""
    return rng.choice((rng.randrange(8), rng.choice(EXTREME), rng.getrandbits(rng.randint(1, most))))


# ------------------------------------------------------------------------------------------------------- zip, npz, npy


def zip_directory(rng: Random, content: bytes) -> bytes:
    """Another value in one field of the directory of a zip, or a member twice, or one that is a bomb."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(one.filename, archive.read(one)) for one in archive.infolist()]
    except Exception:  # it is damaged already
        return mutations.flip_bits(rng, content)
    if rng.random() < 0.4:
        name, data = rng.choice(members)
        other = rng.choice((data, data[::-1], b"", bytes(rng.choice((1 << 10, 1 << 24))), data[:-1]))
        members.insert(rng.randrange(len(members) + 1), (rng.choice((name, name.removesuffix(".npy"), "x.npy")), other))
        return _zipped(members, rng)
    made = bytearray(_zipped(members, rng))
    places = [at for at in range(len(made) - 4) if made[at : at + 4] in (b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06")]
    at = rng.choice(places) + rng.randrange(4, 46)
    size = rng.choice((1, 2, 4))
    made[at : at + size] = (number(rng, 8 * size) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(made)


def _zipped(members: list[tuple[str, bytes]], rng: Random) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, archive.compression)
    return made.getvalue()


def npy_values(rng: Random, content: bytes) -> bytes:
    """Another value, shape or dtype in an array."""
    try:
        array = np.load(io.BytesIO(content)).copy()
    except Exception:  # its header is damaged already
        return mutations.flip_bits(rng, content)
    kind = rng.randrange(6)
    if kind == 0:
        array = array.reshape(-1) if array.ndim > 1 else array[None]
    elif kind == 1:
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array
    elif kind == 2:
        array = array.astype(rng.choice(("f2", "f8", "i1", "u8", "U3", "?", "c8", "M8[s]")))
    elif array.size:
        extreme = (0, -1, 1e300, np.inf, -np.inf, np.nan) if array.dtype.kind == "f" else (0, 1, 100)
        array.flat[rng.randrange(array.size)] = rng.choice(extreme)
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


def archive_member(rng: Random, content: bytes) -> bytes:
    """Another value in the settings or in an array of a reference or a sketch, with valid checksums."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {one.filename: archive.read(one) for one in archive.infolist()}
        head = next(name for name in members if name.endswith(".json"))
        about = members.pop(head)
        if rng.random() < 0.6:
            about = mutations.json_node(rng, about)
        else:
            name = rng.choice(list(members))
            members[name] = rng.choice((mutations.npy_header, npy_values, npy_values))(rng, members[name])
        known = json.loads(about)
        if isinstance(known, dict) and isinstance(known.get("sha256"), dict):
            sums = {name.removesuffix(".npy"): hashlib.sha256(data).hexdigest() for name, data in members.items()}
            known["sha256"] |= {name: sums[name] for name in known["sha256"] if name in sums}
        about = json.dumps(known).encode("utf-8", "surrogatepass")
    except (ValueError, zipfile.BadZipFile, StopIteration, RecursionError):
        return mutations.flip_bits(rng, content)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in (*members.items(), (head, about)):
            archive.writestr(zipfile.ZipInfo(name), data)
        archive.comment = hashlib.sha256(about).hexdigest().encode()
    return made.getvalue()


PLUGIN = "attack_plugin"  # a module that `readers.reference_names` installs, with an entry point of the same name
CODE = (
    *(f"{PLUGIN}:run", PLUGIN, f"{PLUGIN}.run", "subprocess:run", "os:system", "builtins:eval", "precall.cli:app"),
    *("hf:org/model", f"hf:{SECRET}", "hf:.", "st:org/model", "timm:resnet50", "open_clip:ViT-B-32/a"),
    *(f"onnx:{SECRET}", f"torchscript:{SECRET}", "onnx:/etc/passwd", "torchscript:", ":", "pixels:", "ngrams\0"),
)


def archive_names(rng: Random, content: bytes) -> bytes:
    """The name of code in the place of the encoder or of another text of the settings, with valid checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(one.filename, archive.read(one)) for one in archive.infolist()]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as changed:
        for name, data in members:
            if name.endswith(".json"):
                data = json.dumps(_named(rng, json.loads(data))).encode("utf-8", "surrogatepass")
                changed.comment = hashlib.sha256(data).hexdigest().encode()
            changed.writestr(zipfile.ZipInfo(name), data)
    return made.getvalue()


def _named(rng: Random, about: Any) -> Any:
    """The settings with the name of code in one or more places; `rng` also wraps it in a list or an object."""
    name = rng.choice(CODE)
    value = rng.choice((name, name, name, name, [name], {"name": name}, name.upper(), f" {name}"))
    places = [about["protocol"], about["protocol"].setdefault("protocol", {}), about]
    for place in rng.sample(places, rng.choice((1, 1, 2, 3))) if rng.random() < 0.3 else places[:1]:
        place[rng.choice(("encoder", "encoder", "encoder", "function", "model", "network", "weights", "name"))] = value
    if rng.random() < 0.7:
        about["protocol"]["encoder"] = value
    return about


# ------------------------------------------------------------------------------------------------------------------ tar


def tar_header(rng: Random, content: bytes) -> bytes:
    """Another value in one field of a header, with its checksum, or a further header before a member."""
    blocks = [bytearray(content[at : at + 512]) for at in range(0, len(content), 512)]
    heads = [at for at, block in enumerate(blocks) if block[257:262] == b"ustar"]
    if not heads:
        return mutations.flip_bits(rng, content)
    at = rng.choice(heads)
    if rng.random() < 0.5:
        return b"".join(map(bytes, [*blocks[:at], *_further_header(rng), *blocks[at:]]))
    field, size = rng.choice(((0, 100), (100, 8), (124, 12), (136, 12), (156, 1), (157, 100), (257, 8), (345, 155)))
    value = rng.choice((
        f"{number(rng, 33):o}".encode(), rng.choice(NAMES).encode(), b"\x80" + number(rng).to_bytes(11, "big"),
        rng.choice((b"0", b"1", b"2", b"5", b"x", b"g", b"L", b"K", b"S", b"V", b"\0")), b"-1", b"\xff" * 12, b"",
    ))  # fmt: skip
    blocks[at][field : field + size] = value[:size].ljust(size, b"\0")
    blocks[at] = _summed(blocks[at])
    return b"".join(map(bytes, blocks))


def _summed(block: bytearray) -> bytearray:
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return block


def _further_header(rng: Random) -> list[bytearray]:
    """A header of attributes or of a long name, with its content."""
    key = rng.choice(("path", "size", "linkpath", "hdrcharset", "mtime", "GNU.sparse.map", "GNU.sparse.major",
                      "GNU.sparse.realsize", "SCHILY.xattr.a", "x"))  # fmt: skip
    value = rng.choice((*NAMES, "9" * rng.choice((5, 64, 300, 30_000)), "1,2," * 500, "nan", "BINARY", "-1", "1e400"))
    record = f" {key}={value}\n"
    length = rng.choice((len(record.encode()) + len(str(len(record) + 5)), number(rng, 20)))
    body = rng.choice((f"{length}{record}".encode() * rng.choice((1, 1, 50)), value.encode() + b"\0", b"9" * 60_000))
    header = tarfile.TarInfo("x")
    header.type, header.size = (
        rng.choice((b"x", b"g", b"L", b"K", b"X", b"S")),
        rng.choice((len(body), len(body), number(rng, 33))),
    )
    raw = header.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % 512)
    return [bytearray(raw[at : at + 512]) for at in range(0, len(raw), 512)]


# ------------------------------------------------------------------------------------------------------- Parquet, Arrow


def parquet_file(rng: Random, content: bytes) -> bytes:
    """A Parquet file of random columns and encodings, or another number in the footer or in the header of a page."""
    if rng.random() < 0.4:
        return _footer_changed(rng, content)
    made = _parquet(rng)
    return _footer_changed(rng, made) if rng.random() < 0.4 else made


def _footer_changed(rng: Random, content: bytes) -> bytes:
    (size,) = struct.unpack("<I", content[-8:-4]) if content[-4:] == b"PAR1" else (0,)
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2))):
        footer = rng.randrange(max(4, len(changed) - 8 - size), max(5, len(changed) - 8))
        page = rng.randrange(4, max(5, min(len(changed) - 8 - size, 120)))  # the first pages begin the file
        changed[rng.choice((footer, page))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(changed)


def table(rng: Random) -> Any:
    """An Arrow table of one to three columns of random types; some values are extreme, or shared by very many rows."""
    import pyarrow as pa

    n = rng.choice((1, 5, 40, 40, 400))
    return pa.table(
        {rng.choice(("text", "image", "features", f"c{i}")) + str(i): _column(rng, n) for i in range(rng.randint(1, 3))}
    )


def _column(rng: Random, n: int) -> Any:
    import pyarrow as pa

    long = rng.choice(("", "a", "ab" * 200, "ab" * 200, "a" * 70_000, "é" * (1 << rng.choice((10, 16, 19)))))
    whole = [rng.choice((0, 1, -1, 2**31 - 1, 2**40)) for _ in range(n)]
    moments = (pa.timestamp("us"), pa.timestamp("ns"), pa.date64(), pa.duration("s"), pa.time64("ns"))
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), [long])
    makes: tuple[Callable[[], Any], ...] = (
        lambda: pa.array(whole),
        lambda: pa.array([2**62, *whole[1:]], pa.int64()).view(rng.choice(moments)),
        lambda: pa.array([rng.choice((0.5, float("nan"), float("inf"), None)) for _ in range(n)]),
        lambda: shared,
        lambda: pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([b"\x89PNG" + long.encode()])),
        lambda: pa.nulls(rng.choice((n, n)), rng.choice((pa.null(), pa.string(), pa.list_(pa.float32())))),
        lambda: pa.array([[0.5] * rng.choice((0, 3, 3, 3)) for _ in range(n)]),
        lambda: pa.FixedSizeListArray.from_arrays(pa.array([0.5] * 3 * n, pa.float32()), 3),
        lambda: pa.array([{"bytes": b"\x89PNG" + long.encode()[:99], "path": "/etc/passwd"}] * n),
        lambda: pa.array([[("k", long[:50])]] * n, pa.map_(pa.string(), pa.string())),
        lambda: pa.array([b"\xff" * 12] * n, pa.binary(12)),
        lambda: pa.array([rng.random() < 0.5 for _ in range(n)]),
        lambda: pa.array([__import__("decimal").Decimal("1e30")] * n, pa.decimal128(38, 2)),
        lambda: pa.ListArray.from_arrays([0, *[n] * n], shared),
    )  # fmt: skip
    return rng.choice(makes)()


def _parquet(rng: Random) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    made = io.BytesIO()
    options: dict[str, Any] = {
        "compression": rng.choice(("none", "snappy", "zstd", "gzip", "brotli")),
        "data_page_version": rng.choice(("1.0", "2.0")),
        "store_schema": rng.random() < 0.5,
        "use_dictionary": rng.random() < 0.7,
        "row_group_size": rng.choice((7, 1000, 100_000)),
        "write_page_checksum": rng.random() < 0.3,
    }
    try:
        pq.write_table(table(rng), made, **options)
    except (pa.ArrowException, NotImplementedError):
        return _parquet(rng)
    return made.getvalue()


def arrow_file(rng: Random, content: bytes) -> bytes:
    """An Arrow file of random columns, or another number in the header of a message."""
    import pyarrow as pa

    made = io.BytesIO()
    if rng.random() < 0.6:
        known = table(rng)
        codec = rng.choice((None, "lz4", "zstd"))
        make = rng.choice((pa.ipc.new_file, pa.ipc.new_stream))
        with make(made, known.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
            writer.write_table(known, rng.choice((None, 7)))
        content = made.getvalue()
        if rng.random() < 0.5:
            return content
    heads = [at for at in range(0, min(len(content), 1 << 16) - 8, 8) if content[at : at + 4] == b"\xff\xff\xff\xff"]
    if not heads:
        return mutations.overwrite(rng, content)
    at = rng.choice(heads)
    (size,) = struct.unpack_from("<I", content, at + 4)
    place = at + 8 + 4 * rng.randrange(max(1, min(size, len(content) - at - 16) // 4))
    return content[:place] + struct.pack("<I", number(rng, 32) & 0xFFFFFFFF) + content[place + 4 :]


# ---------------------------------------------------------------------------------------------------- HDF5, safetensors


SHAPES = (
    *((), (0,), (5,), (40,), (5, 3), (5, 3), (40, 3), (40, 3), (40, 3), (8, 6, 5, 3), (300, 2)),
    *((10**12,), (10**12, 0), (10**9, 4), (1, 10**7), (5, 2, 2, 2, 2)),
)
LINKS: tuple[Callable[[Random, Any, Any], Any], ...] = (
    lambda rng, file, h5py: file.__setitem__("soft", h5py.SoftLink(rng.choice(("/soft", "/features", "/nowhere")))),
    lambda rng, file, h5py: file.__setitem__("other", h5py.ExternalLink(f"../{SECRET}", "/features")),
    lambda rng, file, h5py: file.__setitem__("circle", file["/"]),
    lambda rng, file, h5py: file.create_dataset("outside", (5, 3), "u1", external=[("../" + SECRET, 0, 15)]),
    lambda rng, file, h5py: file.create_group("/".join("g" * rng.choice((3, 31, 40)))),
    lambda rng, file, h5py: file["/"].attrs.create("about", rng.choice(("a" * 60_000, 3.5, h5py.Empty("f4")))),
)


def hdf5_file(rng: Random, content: bytes) -> bytes:
    """An HDF5 file of random data sets, groups, links and filters, or another number in one of these."""
    import h5py

    with tempfile.NamedTemporaryFile(suffix=".h5") as place:
        with suppress(RuntimeError), h5py.File(place.name, "w", libver=rng.choice(("earliest", "latest"))) as file:
            _data_set(rng, file, h5py, rng.choice(("features", "features", "texts", "a/b/c")))
            if rng.random() < 0.2:
                _data_set(rng, file, h5py, rng.choice(("images", "labels", "texts")))
            if rng.random() < 0.3:
                rng.choice(LINKS)(rng, file, h5py)
        if not 0 < Path(place.name).stat().st_size <= LARGEST:  # of holes
            return mutations.flip_bits(rng, content)
        made = bytearray(Path(place.name).read_bytes())
    if made[8:9] == b"\0" and rng.random() < 0.6:  # the format without checksums
        at, size = rng.randrange(8, min(len(made), rng.choice((2500, 10**6)))), rng.choice((1, 2, 4, 8))
        made[at : at + size] = (number(rng) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(made)


def _data_set(rng: Random, file: Any, h5py: Any, name: str) -> None:
    texts, odd = h5py.string_dtype(), ("S5", h5py.vlen_dtype("f4"), "c8", "?", h5py.ref_dtype, "f2", ">i2", "V7")
    kind = rng.choice((texts, texts, "f4", "f4", "f8", "i8", "u1", rng.choice(odd)))
    shape: tuple[int, ...] = rng.choice(SHAPES)
    if rng.random() < 0.8:  # as many dimensions as samples of this kind have
        shape = shape[:1] if kind is texts else (*shape, 3)[: max(2, len(shape))]
    options: dict[str, Any] = {}
    if shape and 0 not in shape and (math.prod(shape) > 10**5 or rng.random() < 0.7):
        options = {"chunks": tuple(min(side, rng.choice((1, 8, 8, 1000))) for side in shape)}
        options |= rng.choice(
            ({}, {"compression": "gzip"}, {"compression": "lzf"}, {"shuffle": True}, {"fletcher32": True})
        )
    with suppress(ValueError, TypeError, OSError, RuntimeError, NotImplementedError):
        data = file.create_dataset(name, shape, kind, **options)
        if options.get("compression") == "gzip" and rng.random() < 0.3:
            bomb = zlib.compress(bytes(rng.choice((0, 10, 1 << 16, 1 << 25))))
            data.id.write_direct_chunk((0,) * data.ndim, rng.choice((bomb, bomb[:-3], b"", b"\xff" * 50)))
        elif 0 < data.size < 10**5 and kind is texts:
            words = ("", "a text", "\0", "ü" * 700, "a" * 70_000, b"\xff\xfe")
            data[...] = np.array([rng.choice(words) for _ in range(data.size)], object).reshape(shape)
        elif 0 < data.size < 10**5:
            data[...] = np.arange(data.size).reshape(shape) % 7 / 7


OWN: dict[str, tuple[Mutation, ...]] = {
    ".npy": (mutations.npy_header, npy_values),
    ".npz": (zip_directory, mutations.zip_members(mutations.npy_header), mutations.zip_members(npy_values)),
    ".zip": (zip_directory, mutations.zip_members(mutations.png_chunk)),
    ".safetensors": (mutations.tensor_header,),
    ".tar": (tar_header,),
    ".parquet": (parquet_file,),
    ".arrow": (arrow_file,),
    ".h5": (hdf5_file,),
    ".precall": (archive_member, archive_member, zip_directory),
    ".sketch": (archive_member, archive_member, zip_directory),
    ".json": (mutations.json_node,),
    ".jsonl": (mutations.json_line,),
    ".csv": (mutations.csv_cell,),
}
