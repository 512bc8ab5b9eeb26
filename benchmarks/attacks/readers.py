"""The readers of precall: for each, a valid small file and the public function that reads it."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.attacks import formats
from benchmarks.attacks.inputs import PAGES, Target, Victim

Make = Callable[[Path], None]


def samples_in(
    name: str,
    make: Callable[[Path], object],
    *,
    encoder: str | None = None,
    key: str | None = None,
    unkeyed: bool = False,
) -> Target:
    """A source of samples: `make` writes it as `name`, and every sample is read, described and hashed.

    Args:
        name: Name of the file or folder.
        make: Writes it.
        encoder: Also compute features with this encoder.
        key: Name of the array, column or field.
        unkeyed: Whether the name is left out for files that are not the first one.
    """

    def target(folder: Path) -> Victim:
        make(folder / name)
        first = (folder / name).read_bytes() if unkeyed else b""

        def read(rng: Random) -> None:
            changed = unkeyed and (folder / name).read_bytes() != first
            _all(folder / name, rng, encoder, None if changed else key)

        return Victim(folder, read)

    return target


def _all(path: Path, rng: Random, encoder: str | None, key: str | None) -> None:
    from precall.encoders import encode
    from precall.samples import open_samples

    samples = open_samples(path, key=key, on_error=rng.choice(("fail", "skip")))
    for _ in samples.batches(16):
        pass
    samples.fingerprint()
    if len(samples):
        samples.describe(0)
        samples.thumbnail(0)
    if encoder is not None:
        encode(samples, encoder, cache=False)


# ----------------------------------------------------------------------------------------------------------- the files


def matrix(n: int = 40, d: int = 3) -> Any:
    """Features that do not depend on the seed of the attack."""
    return np.random.default_rng(7).normal(size=(n, d)).astype(np.float32)


def pictures(n: int = 2) -> Any:
    """Small colour images."""
    return np.random.default_rng(8).integers(0, 256, size=(n, 6, 5, 3), dtype=np.uint8)


def _npz(path: Path) -> None:
    np.savez(path, features=matrix(), labels=np.arange(40))


def _statistics(path: Path) -> None:
    np.savez_compressed(path, mu=np.zeros(3), sigma=np.eye(3), n=np.array(40))


def _safetensors(path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"features": matrix(), "labels": np.arange(40)}, path)


def _bfloat16(path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({"features": torch.tensor(matrix()).bfloat16()}, path)


def _parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": list(range(40)), "features": matrix().tolist()}), path)


def _image(suffix: str, **options: Any) -> Make:
    def make(folder: Path) -> None:
        from PIL import Image

        folder.mkdir()
        Image.fromarray(pictures(1)[0]).save(folder / f"one.{suffix}", **options)

    return make


def _grey16(folder: Path) -> None:
    from PIL import Image

    folder.mkdir()
    Image.fromarray(pictures(1)[0, ..., 0].astype(np.uint16) * 257).save(folder / "grey.png")
    Image.fromarray(pictures(1)[0]).convert("P").save(folder / "palette.png", transparency=1)
    Image.fromarray(pictures(1)[0]).convert("RGBA").save(folder / "alpha.png")


def png(index: int = 0) -> bytes:
    """One image as a PNG."""
    from PIL import Image

    made = io.BytesIO()
    Image.fromarray(pictures(index + 1)[index]).save(made, "PNG")
    return made.getvalue()


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for index in range(2):
            archive.writestr(f"class {index}/{index}.png", png(index))


def _csv(path: Path) -> None:
    rows = [f"{x:.3f},{'ab'[i % 2]},{i}" for i, x in enumerate(matrix()[:, 0])]
    path.write_text("\n".join(["height,class,count", *rows]) + "\n")


def _tsv(path: Path) -> None:
    path.write_text("\n".join("\t".join(f"{x:.3f}" for x in row) for row in matrix()) + "\n")


def _txt(path: Path) -> None:
    path.write_text("".join(f"the cat {i} sat on the mät\n" for i in range(10)), encoding="utf-8")


def _jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps({"text": f"answer {i}", "n": i}) + "\n" for i in range(10)))


def _tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for index in range(2):
            _add(archive, f"{index}.png", png(index))
            _add(archive, f"{index}.json", json.dumps({"a": [f"text {index}"]}).encode())


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def _images_in_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"image": [{"bytes": png(index), "path": None} for index in range(2)]}), path)


def _mixed_parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"age": list(range(20)), "city": ["a", "b"] * 10, "x": [0.5] * 20}), path)


def _arrow(path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"text": [f"text {i}" for i in range(20)], "features": matrix(20).tolist()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def _hdf5(path: Path) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=matrix(), chunks=(8, 3), compression="gzip")
        file["texts"] = ["a text", "another"]


# ------------------------------------------------------------------------------------------------ groups, results, runs


def groups(folder: Path) -> Victim:
    """A file of labels, as `--groups real=FILE` reads it."""
    from precall.cli.assess import labels_of
    from precall.samples import open_samples

    path = folder / "labels.txt"
    path.write_text("".join(f"group {i % 3}\n" for i in range(40)))
    data = open_samples(matrix())
    return Victim(folder, lambda rng: labels_of([f"real={path}", f"m={path}"], data, {"m": data}) and None)


def results(folder: Path) -> Victim:
    """A report of `precall assess --out`, as `precall.load` and `precall report` read it."""
    import precall

    texts = [f"the cat {i} sat" for i in range(30)]
    fakes = [f"a dog {i} ran" for i in range(30)]
    found = precall.assess(real=texts, fake={"m": fakes}, metrics=("clusters", "fid", "neighbors"), encoder="ngrams")
    written = folder / "written"
    from precall.report import folder as report

    report.write(found, written, command="precall assess")
    for name in ("report.html", "curves.png"):
        (written / name).unlink(missing_ok=True)

    def read(rng: Random) -> None:
        loaded = precall.load(written)
        repr(loaded)
        if rng.random() < PAGES:
            loaded.to_html(folder.parent / "page.html")

    return Victim(written, read)


def _run_folder(out: Path) -> None:
    """A finished run of two steps."""
    from precall.cli import app

    words = ["tune", "--data", str(out.parent / "data.npy"), "--steps", "2", "--batch-size", "8", "--out", str(out)]
    app([*words, "--device", "cpu"], standalone_mode=False)


def run_folder(folder: Path) -> Victim:
    """run.json, log and checkpoint of an unfinished run, as `precall tune --resume` reads them. Nothing is trained."""
    import typer

    from precall.cli import app
    from precall.tune.trainer import Trainer

    np.save(folder.parent / "data.npy", matrix(120, 2))
    before = folder.parent / "run"
    shutil.rmtree(before, ignore_errors=True)
    _run_folder(before)
    shutil.copytree(before, folder / "run")
    for path in (folder / "run").glob("samples*"):
        path.unlink()

    def fit(self: Trainer, steps: int, progress: object = None) -> Trainer:
        raise typer.Exit(0)  # where training would begin

    Trainer.fit = fit  # type: ignore[method-assign,assignment]
    words = ["tune", "--resume", "--out", str(folder / "run"), "--device", "cpu"]

    def read(rng: Random) -> None:
        said = io.StringIO()
        with redirect_stderr(said):
            status = app(words, standalone_mode=False)
        if status in (1, 2):
            raise ValueError(said.getvalue())
        if status:
            raise RuntimeError(f"status {status}: {said.getvalue()}")

    return Victim(folder, read, restore=True)


def checkpoint(folder: Path) -> Victim:
    """A checkpoint, as `Trainer.load` reads it: the networks that were saved, or an error."""
    import torch

    from precall.tune import Settings, Trainer
    from precall.tune.models.mlp import MLPDiscriminator, MLPGenerator
    from precall.tune.objectives import PRObjective

    torch.manual_seed(0)
    generator, discriminator = (make(widths=(4,)) for make in (MLPGenerator, MLPDiscriminator))
    settings = Settings(batch_size=8, log_every=1)
    trainer = Trainer(generator, discriminator, PRObjective(lam=2.0), torch.tensor(matrix(40, 2)), settings=settings)
    trainer.fit(2)
    path = folder / "checkpoint.safetensors"
    trainer.save(path)

    def read(rng: Random) -> list[float]:
        trainer.load(path)
        nets = (trainer.generator, trainer.discriminator, trainer.average)
        return [float(trainer.step), *(float(one.double().sum()) for net in nets for one in net.state_dict().values())]

    return Victim(folder, read, protected=True)


# --------------------------------------------------------------------------------------------------------------- caches


def feature_cache(folder: Path) -> Victim:
    """The features of a folder of images in the cache, as `encode` reads them."""
    from precall.encoders import encode
    from precall.samples import open_samples

    images = folder.parent / "images"
    shutil.rmtree(images, ignore_errors=True)
    images.mkdir()
    for index in range(3):
        (images / f"{index}.png").write_bytes(png(index))
    (images / "9.png").write_bytes(b"no image")

    def read(rng: Random) -> list[float]:
        found = encode(open_samples(images, on_error="skip"), "pixels", cache=folder)
        return [*map(float, np.asarray(found.array, np.float64).sum(1)), *map(float, found.indices)]

    read(Random(0))
    return Victim(folder, read, protected=True, restore=True)


def chunk_cache(folder: Path) -> Victim:
    """The chunks of an interrupted encoding."""
    from precall.encoders import cache, encode
    from precall.encoders.cache import FeatureStore
    from precall.samples import open_samples

    texts = open_samples([f"text {i}" for i in range(cache.CHUNK + 9)])
    finish = FeatureStore.finish
    FeatureStore.finish = lambda self: (_ for _ in ()).throw(KeyboardInterrupt())  # type: ignore[method-assign]
    try:
        encode(texts, "ngrams", cache=folder)
    except KeyboardInterrupt:
        pass
    finally:
        FeatureStore.finish = finish  # type: ignore[method-assign]

    def read(rng: Random) -> float:
        return float(np.asarray(encode(texts, "ngrams", cache=folder).array, np.float64).sum())

    return Victim(folder, read, protected=True, restore=True)


def results_cache(folder: Path) -> Victim:
    """Results in the cache, as `precall assess` reads them."""
    import os

    from precall.cli.results_cache import assessed
    from precall.metrics.assessing.requests import Request
    from precall.samples import open_samples

    os.environ["PRECALL_CACHE"] = str(folder)
    data, fakes = open_samples(matrix()), {"m": open_samples(matrix() + 1)}
    request = Request(metrics=["fid"])

    def read(rng: Random) -> str:
        return json.dumps(assessed(data, fakes, request, fresh=False).to_dict()["models"]["m"]["scores"])

    read(Random(0))
    return Victim(folder, read, protected=True, restore=True)


def file_index(folder: Path) -> Victim:
    """The index of the hashes of files: the features must be those of the files, whatever the index says."""
    from precall.encoders import encode
    from precall.samples import open_samples

    images = folder.parent / "indexed"
    shutil.rmtree(images, ignore_errors=True)
    images.mkdir()
    for index in range(2):
        (images / f"{index}.png").write_bytes(png(index))
        import os

        os.utime(images / f"{index}.png", (1e9, 1e9))

    def read(rng: Random) -> list[float]:
        found = encode(open_samples(images), "pixels", cache=folder)
        return [float(x) for x in np.asarray(found.array, np.float64).sum(1)]

    read(Random(0))
    index = next(iter((folder / "files").glob("*.json"))).name
    return Victim(folder, read, protected=True, restore=True, only=(index,))


def reference(folder: Path) -> Victim:
    """A reference, as `Reference.load` reads it, with what is computed from it."""
    from precall import Reference

    path = Reference.fit(matrix(80), k=3).save(folder / "a.precall")

    def read(rng: Random) -> None:
        loaded = Reference.load(path)
        repr(loaded)
        loaded.assess(matrix(60) + 1, metrics=("neighbors", "fid")).to_dict()
        loaded.sketch(matrix(60) + 1).ball_scores()

    return Victim(folder, read)


def reference_names(folder: Path) -> Victim:
    """A reference of texts that names code as its encoder: fakes are encoded, or it is refused, and nothing runs."""
    import sys

    import precall

    installed = folder.parent / "installed"
    about = installed / f"{formats.PLUGIN}-1.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    code = "from benchmarks.attacks.inputs import SEEN\nSEEN.append('executed: the plug-in')\n"
    (installed / f"{formats.PLUGIN}.py").write_text(code + "def run(*_):\n    SEEN.append('executed: its function')\n")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {formats.PLUGIN}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[precall.encoders]\n{formats.PLUGIN} = {formats.PLUGIN}:run\n")
    sys.path.append(str(installed))
    path = precall.Reference.fit([f"the cat {i} sat" for i in range(30)], k=3, encoder="ngrams").save(
        folder / "a.precall"
    )

    def read(rng: Random) -> None:
        fakes = [f"a dog {i} ran" for i in range(12)]
        how = rng.randrange(3)
        if how == 0:
            precall.assess(real=path, fake=fakes, metrics=("fid",))
        elif how == 1:
            precall.Reference.load(path).assess(fakes, metrics=("fid",))
        else:
            precall.Reference.load(path).sketch(fakes)

    return Victim(folder, read, change=formats.archive_names)


def sketch(folder: Path) -> Victim:
    """A sketch, as `Sketch.load` and `precall merge` read it."""
    from precall import Reference, Sketch

    path = Reference.fit(matrix(80), k=3).sketch(matrix(60) + 1).save(folder / "a.sketch")

    def read(rng: Random) -> None:
        loaded = Sketch.load(path)
        repr(loaded)
        loaded.ball_scores()
        loaded.save(folder.parent / "again.sketch")
        if rng.random() < PAGES:
            repr(loaded.assessment())

    return Victim(folder, read)


TARGETS: dict[str, Target] = {
    "npy features": samples_in("a.npy", lambda path: np.save(path, matrix())),
    "npy images": samples_in("a.npy", lambda path: np.save(path, pictures()), encoder="pixels"),
    "npz": samples_in("a.npz", _npz),
    "npz statistics": samples_in("a.npz", _statistics),
    "safetensors": samples_in("a.safetensors", _safetensors, key="features"),
    "safetensors bfloat16": samples_in("a.safetensors", _bfloat16),
    "parquet": samples_in("a.parquet", _parquet),
    "csv": samples_in("a.csv", _csv),
    "tsv": samples_in("a.tsv", _tsv),
    "txt": samples_in("a.txt", _txt),
    "txt encoded": samples_in("a.txt", _txt, encoder="ngrams"),
    "jsonl": samples_in("a.jsonl", _jsonl),
    "png": samples_in("images", _image("png")),
    "png 16 bit, palette, alpha": samples_in("images", _grey16),
    "jpg": samples_in("images", _image("jpg")),
    "gif": samples_in("images", _image("gif")),
    "webp": samples_in("images", _image("webp")),
    "bmp": samples_in("images", _image("bmp")),
    "ppm": samples_in("images", _image("ppm")),
    "tiff": samples_in("images", _image("tiff")),
    "zip": samples_in("a.zip", _zip),
    "tar": samples_in("a.tar", _tar),
    "tar json": samples_in("a.tar", _tar, key="a.0"),
    "parquet images": samples_in("a.parquet", _images_in_parquet),
    "parquet table": samples_in("a.parquet", _mixed_parquet),
    "parquet text": samples_in("a.parquet", _mixed_parquet, key="city"),
    "arrow": samples_in("a.arrow", _arrow),
    "arrow text": samples_in("a.arrow", _arrow, key="text"),
    "hdf5": samples_in("a.h5", _hdf5, key="features"),
    "hdf5 text": samples_in("a.h5", _hdf5, key="texts"),
    "groups": groups,
    "results": results,
    "run folder": run_folder,
    "checkpoint": checkpoint,
    "feature cache": feature_cache,
    "feature cache, interrupted": chunk_cache,
    "results cache": results_cache,
    "file index": file_index,
}

AWARE: dict[str, Target] = {
    **{name: TARGETS[name] for name in ("npy features", "npy images", "npz", "npz statistics", "safetensors")},
    **{name: TARGETS[name] for name in ("safetensors bfloat16", "zip", "tar", "tar json", "jsonl", "csv")},
    **{name: TARGETS[name] for name in ("parquet", "parquet text", "parquet images", "parquet table", "arrow")},
    **{name: TARGETS[name] for name in ("arrow text", "hdf5", "hdf5 text", "results")},
    "parquet, any": samples_in("a.parquet", _parquet, unkeyed=True),
    "arrow, any": samples_in("a.arrow", _arrow, unkeyed=True),
    "hdf5, any": samples_in("a.h5", _hdf5, key="features", unkeyed=True),
    "reference": reference,
    "reference names": reference_names,
    "sketch": sketch,
}
