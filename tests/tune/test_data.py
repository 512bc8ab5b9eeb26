"""Data: what the files say is what comes out, and a wrong file costs a sentence."""

import gzip
import hashlib
import io
import urllib.request
import zipfile

import numpy as np
import pytest
from PIL import Image

from precall.tune import data as module
from precall.tune.data import IDX, TrainingData, load_data, read_cifar, read_idx

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No dataset package and an empty cache."""
    monkeypatch.setattr(module, "SYSTEM", tmp_path / "system")
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))


def idx(array):
    axes = b"".join(length.to_bytes(4, "big") for length in array.shape)
    return b"\0\0\x08" + bytes([array.ndim]) + axes + array.astype(np.uint8).tobytes()


def arrays(n=7, held_out=3):
    sizes = {"train": n, "t10k": held_out}
    return [
        RNG.integers(0, 256, (sizes[file.split("-")[0]], 28, 28), dtype=np.uint8)
        if "images" in file
        else RNG.integers(0, 10, sizes[file.split("-")[0]], dtype=np.uint8)
        for file in IDX
    ]


def write_idx(folder, contents, packed=True):
    folder.mkdir(parents=True, exist_ok=True)
    for file, array in zip(IDX, contents, strict=True):
        content = idx(array)
        (folder / (file + ".gz" if packed else file)).write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("place", ["given", "given/mnist", "given/MNIST/raw", "system/mnist", "cache/data/mnist"])
def test_idx_files_are_found_and_read(tmp_path, place, packed):
    contents = arrays()
    (tmp_path / "given").mkdir()
    write_idx(tmp_path / place, contents, packed)
    found = load_data("mnist", tmp_path / "given")
    assert (found.samples == contents[0][:, None]).all()
    assert (found.labels == contents[1]).all()
    assert (found.held_out == contents[2][:, None]).all()
    assert (found.held_out_labels == contents[3]).all()
    assert (found.classes, found.shape, found.samples.dtype) == (10, (1, 28, 28), np.uint8)
    assert found.samples.flags.writeable  # torch warns of arrays it must not write to


def test_the_given_folder_comes_before_the_system(tmp_path):
    ours, theirs = arrays(), arrays()
    write_idx(tmp_path / "given", ours)
    write_idx(tmp_path / "system" / "fashion-mnist", theirs)
    assert (load_data("fashion-mnist", tmp_path / "given").samples == ours[0][:, None]).all()
    assert (load_data("fashion-mnist").samples == theirs[0][:, None]).all()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "must be an idx file of bytes"),
        (b"\0\0\x08\x03\0\0", "must be an idx file of bytes"),
        (b"\0\0\x0d\x01\0\0\0\x01" + bytes(4), "must be an idx file of bytes"),  # floats
        (idx(np.zeros((2, 3, 3)))[:-1], "must hold 2 × 3 × 3 bytes after its header; got 17"),
        (idx(np.zeros(5)) + b"more", "must hold 5 bytes after its header; got 9"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "must hold 4294967295 × 4294967295 × 4294967295 bytes"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_malformed_idx_costs_a_sentence(tmp_path, content, said, packed):
    path = tmp_path / ("file.gz" if packed else "file")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(ValueError, match=said) as caught:
        read_idx(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"no gzip at all", gzip.compress(bytes(1000))[:-9], gzip.compress(b"x")[:12]],
    ids=["no gzip", "no end", "no beginning"],  # by content the time of day would be in the name
)
def test_damaged_gzip_costs_a_sentence(tmp_path, content):
    (tmp_path / "file.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"must be a gzipped file.*Download it again"):
        read_idx(tmp_path / "file.gz")


def test_labels_must_belong_to_the_images(tmp_path):
    contents = arrays()
    contents[1] = contents[1][:-1]
    write_idx(tmp_path / "given", contents)
    with pytest.raises(ValueError, match="a label from 0 to 9 for each"):
        load_data("mnist", tmp_path / "given")


def record(label, image):
    return bytes([label]) + image.tobytes()


def write_cifar(folder, n=2):
    folder.mkdir(parents=True)
    images = RNG.integers(0, 256, (6 * n, 3, 32, 32), dtype=np.uint8)
    labels = RNG.integers(0, 10, 6 * n)
    for i, file in enumerate(module.CIFAR):
        rows = range(i * n, (i + 1) * n)
        (folder / file).write_bytes(b"".join(record(labels[j], images[j]) for j in rows))
    return images, labels


def test_cifar_binary(tmp_path):
    images, labels = write_cifar(tmp_path / "given" / "cifar-10-batches-bin")
    found = load_data("cifar-10", tmp_path / "given")
    assert (found.samples == images[:10]).all()
    assert (found.labels == labels[:10]).all()
    assert (found.held_out == images[10:]).all()
    assert (found.held_out_labels == labels[10:]).all()


@pytest.mark.parametrize("last", [True, False])
def test_cifar_npz(tmp_path, last):
    images, labels = RNG.integers(0, 256, (5, 3, 32, 32), dtype=np.uint8), np.arange(5)[:, None]
    stored = images.transpose(0, 2, 3, 1) if last else images
    np.savez(tmp_path / "cifar-10.npz", x_train=stored[:4], y_train=labels[:4], x_test=stored[4:], y_test=labels[4:])
    found = load_data("cifar-10", tmp_path)
    assert (found.samples == images[:4]).all()
    assert found.labels.tolist() == [0, 1, 2, 3]
    assert (found.held_out == images[4:]).all()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "records of 3,073 bytes; got 0"), (bytes(3072), "got 3,072"), (bytes([10]) + bytes(3072), "0 to 9; got 10")],
)
def test_malformed_cifar_costs_a_sentence(tmp_path, content, said):
    (tmp_path / "data_batch_1.bin").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        read_cifar(tmp_path / "data_batch_1.bin")


def test_a_pickled_npz_is_refused(tmp_path):
    np.savez(tmp_path / "cifar-10.npz", x_train=np.array([object()]), y_train=0, x_test=0, y_test=0)
    with pytest.raises(ValueError, match=r"must be a \.npz with x_train"):
        load_data("cifar-10", tmp_path)


def test_celeba_is_the_centre_of_the_image(tmp_path):
    """Green in the centred square, red beyond it: nothing red may be left."""
    with zipfile.ZipFile(tmp_path / "celeba_some.zip", "w") as archive:
        for i in range(20):
            image = np.zeros((109, 89, 3), np.uint8)
            image[..., 0] = 255
            image[10:99] = (0, 200, i)
            file = io.BytesIO()
            Image.fromarray(image).save(file, "PNG")
            archive.writestr(f"{i:06d}.png", file.getvalue())
    found = load_data("celeba-64", tmp_path)
    assert found.samples.shape == (18, 3, 64, 64)
    assert found.held_out.shape == (2, 3, 64, 64)
    assert (found.samples[:, 0] == 0).all()
    assert (found.samples[:, 1] == 200).all()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mnist", "Put train-images-idx3-ubyte, .* into `.*cache.*mnist`"),
        ("cifar-10", "Put data_batch_1.bin, .*cifar-10.npz"),
        ("celeba-64", "Put img_align_celeba"),
        ("nowhere", "must be one of 8-gaussians, .* or a path that exists; got `nowhere`"),
    ],
)
def test_missing_data_says_what_to_put_where(name, said):
    with pytest.raises(ValueError, match=said) as caught:
        load_data(name)
    assert "\n" not in str(caught.value)


def test_a_data_folder_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="`data_dir` must be a folder that exists"):
        load_data("digits", "nowhere")


def served(monkeypatch, contents):
    files = {f"{file}.gz": gzip.compress(idx(array)) for file, array in zip(IDX, contents, strict=True)}
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        return io.BytesIO(files[url.rpartition("/")[2]])

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def test_fashion_mnist_is_fetched_once_and_held_to_its_contents(monkeypatch):
    contents = arrays()
    asked = served(monkeypatch, contents)
    pins = {file: hashlib.sha256(idx(array)).hexdigest() for file, array in zip(IDX, contents, strict=True)}
    monkeypatch.setitem(module.CONTENTS, "fashion-mnist", pins)
    assert (load_data("fashion-mnist").samples == contents[0][:, None]).all()
    assert len(asked) == 4
    load_data("fashion-mnist")
    assert len(asked) == 4


def test_other_contents_are_not_kept(monkeypatch, tmp_path):
    served(monkeypatch, arrays())
    with pytest.raises(ValueError, match=r"must have uncompressed contents of SHA-256 c59f468a.* Nothing was saved"):
        load_data("fashion-mnist")
    assert not list((tmp_path / "cache").rglob("*ubyte*"))


def test_no_network_says_what_to_put_where(monkeypatch):
    def urlopen(url, timeout):
        raise OSError("no route")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(ValueError, match=r"Put train-images-idx3-ubyte.gz, .*cannot be downloaded \(no route\)"):
        load_data("fashion-mnist")


@pytest.mark.parametrize(("name", "modes", "scale"), [("8-gaussians", 8, 0.3), ("25-gaussians", 25, 0.05 / 8**0.5)])
def test_gaussians_have_their_modes_and_scale(name, modes, scale):
    found, again = load_data(name), load_data(name)
    assert (found.samples == again.samples).all()
    assert found.samples.dtype == np.float32
    assert sorted(set(found.labels.tolist())) == list(range(modes))
    assert found.classes == modes
    means = np.array([found.samples[found.labels == mode].mean(0) for mode in range(modes)])
    spread = (found.samples - means[found.labels]).std()
    assert spread == pytest.approx(scale, rel=0.02)
    assert np.isclose(means.mean(0), 0, atol=0.01).all()
    assert not set(map(tuple, found.samples.tolist())) & set(map(tuple, found.held_out.tolist()))


def test_digits_use_the_whole_range_of_bytes():
    found = load_data("digits")
    levels = np.unique(np.concatenate([found.samples, found.held_out]))
    assert levels.tolist() == np.rint(np.arange(17) * 255 / 16).tolist()
    assert len(found.samples) + len(found.held_out) == 1797
    assert set(found.held_out_labels.tolist()) <= set(range(10))


def test_labels_stay_with_their_samples_through_the_split():
    samples = np.arange(100, dtype=np.float32)[:, None]
    found = module._split(samples, np.arange(100), name="x", classes=100)
    assert (found.samples[:, 0] == found.labels).all()
    assert (found.held_out[:, 0] == found.held_out_labels).all()
    assert len(found.held_out) == 10
    assert len(set(found.labels) | set(found.held_out_labels)) == 100


def images(folder, n=20, size=(6, 5), grey=True):
    folder.mkdir()
    for i in range(n):
        pixels = RNG.integers(0, 256, (*size, 3), dtype=np.uint8)
        Image.fromarray(pixels[..., 0] if grey else pixels).save(folder / f"{i}.png")
    return folder


@pytest.mark.parametrize(("grey", "shape"), [(True, (1, 6, 5)), (False, (3, 6, 5))])
def test_a_folder_of_images(tmp_path, grey, shape):
    found = load_data(images(tmp_path / "set", grey=grey))
    assert found.shape == shape
    assert found.samples.dtype == np.uint8
    assert found.labels is None
    assert found.classes == 0


def test_folders_of_images_are_classes(tmp_path):
    (tmp_path / "set").mkdir()
    for name, n in (("dog", 20), ("cat", 40)):
        images(tmp_path / "set" / name, n=n)
    found = load_data(tmp_path / "set")
    assert found.classes == 2
    assert np.bincount(np.concatenate([found.labels, found.held_out_labels])).tolist() == [40, 20]
    cats = {np.asarray(Image.open(file)).tobytes() for file in (tmp_path / "set" / "cat").iterdir()}
    assert [image.tobytes() in cats for image in found.samples] == [label == 0 for label in found.labels]


def test_labels_from_a_file_stay_with_their_samples(tmp_path):
    points = np.repeat([[0.0, 1.0], [5.0, 6.0]], 20, axis=0)
    np.save(tmp_path / "points.npy", points)
    (tmp_path / "labels.txt").write_text("near\n" * 20 + "far\n" * 20)
    found = load_data(tmp_path / "points.npy", labels=tmp_path / "labels.txt")
    assert found.classes == 2
    assert ((found.samples[:, 0] == 5) == (found.labels == 0)).all()  # far before near


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\nb\n" * 19, "each of the 40 samples; got 38 lines"),
        (b"a\n\n" * 20, "got 40 lines, 20 of them empty"),
        (b"a\n" * 40, "at least two classes; all labels are 'a'"),
        (b"\xff\xfe" * 40, "must be a text file with one label per line"),
    ],
)
def test_labels_that_do_not_fit_cost_a_sentence(tmp_path, content, said):
    np.save(tmp_path / "points.npy", RNG.normal(size=(40, 2)))
    (tmp_path / "labels.txt").write_bytes(content)
    with pytest.raises(ValueError, match=said):
        load_data(tmp_path / "points.npy", labels=tmp_path / "labels.txt")
    with pytest.raises(ValueError, match="`digits`, which has its own"):
        load_data("digits", labels=tmp_path / "labels.txt")


def test_more_is_held_out_of_small_data():
    samples = np.arange(300, dtype=np.float32)[:, None]
    found = module.with_held_out(module._split(samples, np.arange(300), name="x", classes=300), 1000)
    assert (len(found.samples), len(found.held_out)) == (200, 100)
    assert (found.samples[:, 0] == found.labels).all()
    assert (found.held_out[:, 0] == found.held_out_labels).all()
    assert sorted(np.concatenate([found.labels, found.held_out_labels])) == list(range(300))
    assert module.with_held_out(found, 50) is found


def test_images_of_two_sizes_are_refused(tmp_path):
    folder = images(tmp_path / "set")
    Image.fromarray(np.zeros((7, 5), np.uint8)).save(folder / "x.png")
    with pytest.raises(ValueError, match=r"the same size; `x.png` has 7 × 5 pixels, the first 6 × 5. Resize"):
        load_data(folder)


def test_points_and_tables(tmp_path):
    points = RNG.normal(size=(30, 3))
    np.save(tmp_path / "points.npy", points)
    rows = "\n".join(",".join(repr(float(x)) for x in row) for row in points)
    (tmp_path / "points.csv").write_text("a,b,c\n" + rows + "\n")
    one, other = load_data(tmp_path / "points.npy"), load_data(tmp_path / "points.csv")
    assert one.shape == (3,)
    assert one.samples.dtype == np.float64  # standardised before it becomes float32
    assert (one.samples == other.samples).all()


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("x.csv", "a,b\n" + "1,2\n" * 30 + "1,red\n", "column 'b' has 'red'"),
        ("x.txt", "a line\n" * 30, "holds text"),
        ("x.csv", "a,b\n" + "1,2\n" * 19, "at least 20 samples; got 19"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(tmp_path, file, content, said):
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match=said):
        load_data(tmp_path / file)


def test_both_sides_must_have_one_shape():
    with pytest.raises(ValueError, match="one shape"):
        TrainingData(np.zeros((3, 2)), None, np.zeros((3, 1)), None)
