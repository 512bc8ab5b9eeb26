"""Folders and zips of images: order, decoding, and hostile files."""

import io
import os
import struct
import time
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from precall.encoders import encode
from precall.samples import SampleError, SampleSet, open_samples
from precall.samples.images import decode_image

HOSTILE = "<img src=x onerror=alert(1)>.png"


def save(path, value=0, size=(8, 6), mode="RGB", **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value).save(path, **options)
    return path


def png(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def png_header(width, height):
    """A PNG that declares a size but contains no pixels."""

    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return (
        b"\x89PNG\r\n\x1a\n"
        + part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
        + part(b"IDAT", zlib.compress(b"\0" * 100))
    )


def truncated_jpeg():
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    return buffer.getvalue()[: len(buffer.getvalue()) // 2]


def test_a_folder_is_read_below_in_natural_order(tmp_path):
    for i, name in enumerate(["img10.png", "img2.png", "a/9.jpg", "a/10.JPG", "Z.webp"]):
        save(tmp_path / name, (i, 0, 0))
    (tmp_path / "labels.json").write_text("{}")
    (tmp_path / ".hidden.png").write_bytes(b"")
    samples = open_samples(tmp_path)
    assert list(samples.ids) == ["Z.webp", "a/9.jpg", "a/10.JPG", "img2.png", "img10.png"]
    assert (samples.kind, len(samples), samples.ignored, samples.errors) == ("images", 5, 2, ())
    assert samples[3].shape == (6, 8, 3)
    assert samples[3].dtype == np.uint8
    assert samples[3][0, 0].tolist() == [1, 0, 0]
    assert samples[-1][0, 0].tolist() == [0, 0, 0]
    with pytest.raises(IndexError, match="between 0 and 4; got 5"):
        samples[5]


def test_decoding_waits_until_a_sample_is_asked_for(tmp_path):
    save(tmp_path / "good.png", (9, 9, 9))
    (tmp_path / "bad.png").write_bytes(b"nothing")
    samples = open_samples(tmp_path)
    assert samples[1].mean() == 9
    with pytest.raises(SampleError, match=r"bad\.png: not an image of a known format"):
        samples[0]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_batches_hold_the_same_samples_whatever_their_size(tmp_path, size):
    for i in range(5):
        save(tmp_path / f"{i}.png", (i, 0, 0))
    batches = list(open_samples(tmp_path).batches(size))
    assert [index for batch in batches for index in batch.indices] == list(range(5))
    assert [name for batch in batches for name in batch.ids] == [f"{i}.png" for i in range(5)]
    assert [int(item[0, 0, 0]) for batch in batches for item in batch.items] == list(range(5))
    assert max(len(batch.items) for batch in batches) <= size


def test_exif_rotation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: rotate by 90 degrees to see it upright
    image = Image.new("RGB", (20, 10))
    image.paste((255, 255, 255), (0, 0, 10, 10))
    image.save(tmp_path / "turned.jpg", exif=exif, quality=100)
    pixels = open_samples(tmp_path)[0]
    assert pixels.shape == (20, 10, 3)
    assert pixels[:8].min() > 240
    assert pixels[12:].max() < 15


def test_grey_palette_and_binary_become_rgb():
    for image in [
        Image.new("L", (3, 2), 200),
        Image.new("RGB", (3, 2), (200,) * 3).convert("P"),
        Image.new("1", (3, 2), 1),
    ]:
        pixels = decode_image(png(image))
        assert pixels.shape == (2, 3, 3)
        assert (pixels == pixels[..., :1]).all()
    assert (decode_image(png(Image.new("1", (3, 2), 1))) == 255).all()


def test_transparency_is_composited_on_white():
    assert decode_image(png(Image.new("RGBA", (2, 2), (255, 0, 0, 0)))).tolist()[0][0] == [255, 255, 255]
    half = decode_image(png(Image.new("RGBA", (2, 2), (0, 0, 0, 128))))
    assert np.ptp(half) == 0
    assert 126 <= half[0, 0, 0] <= 128
    palette = Image.new("P", (2, 2), 0)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    palette.info["transparency"] = bytes([0, 255])
    assert (decode_image(png(palette)) == 255).all()


def test_sixteen_bits_are_scaled_not_clipped():
    grey = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    assert decode_image(png(Image.fromarray(grey)))[0, :, 1].tolist() == [0, 1, 128, 255]


def test_pixels_without_a_range_are_refused(tmp_path):
    Image.fromarray(np.ones((2, 2), np.float32)).save(tmp_path / "depth.tif")
    with pytest.raises(SampleError, match=r"depth\.tif: pixels of mode F have no known range"):
        open_samples(tmp_path)[0]


def test_unreadable_files_fail_or_are_skipped_counted_and_listed(tmp_path):
    save(tmp_path / "1.png", (1, 1, 1))
    (tmp_path / "2.jpg").write_bytes(truncated_jpeg())
    (tmp_path / "3.png").write_bytes(b"")
    save(tmp_path / "4.png", (4, 4, 4))
    with pytest.raises(SampleError, match=r"^2\.jpg: image file is truncated") as caught:
        list(open_samples(tmp_path).batches(10))
    assert "\n" not in str(caught.value)
    samples = open_samples(tmp_path, on_error="skip")
    (batch,) = samples.batches(10)
    assert (batch.ids, batch.indices) == (["1.png", "4.png"], [0, 3])
    assert [(error.index, error.id) for error in samples.errors] == [(1, "2.jpg"), (2, "3.png")]
    list(samples.batches(1))
    assert len(samples.errors) == 2  # reading again gives the same two errors


def test_a_decompression_bomb_is_refused_before_decoding(tmp_path):
    (tmp_path / "bomb.png").write_bytes(png_header(100_000, 100_000))
    (tmp_path / "smaller.png").write_bytes(png_header(10_000, 10_000))
    samples = open_samples(tmp_path)
    with pytest.raises(SampleError, match=r"bomb\.png: too many pixels, refused"):
        samples[0]
    with pytest.raises(SampleError, match=r"smaller\.png: too many pixels, refused"):
        samples[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in a program in which Pillow's warning is not an error
        with pytest.raises(SampleError, match=r"10,000 × 10,000 pixels, more than [0-9,]+; refused"):
            samples[1]


def test_a_very_wide_image_is_only_wide(tmp_path):
    save(tmp_path / "wide.png", (5, 6, 7), size=(100_000, 1))
    samples = open_samples(tmp_path)
    assert samples[0].shape == (1, 100_000, 3)
    assert samples.thumbnail(0).size == (96, 1)


def test_names_are_data(tmp_path):
    for name in [HOSTILE, "new\nline.png", "\x1b[31mred.png", "caf\u00e9.png"]:
        save(tmp_path / name)
    (tmp_path / "\x1b]0;bad.png").write_bytes(b"")
    samples = open_samples(tmp_path)
    assert HOSTILE in samples.ids
    texts = [samples.describe(index) for index in range(len(samples))]
    assert all(text.isprintable() for text in texts)
    assert HOSTILE in texts  # escaping is left to the code that writes HTML
    with pytest.raises(SampleError) as caught:
        samples[list(samples.ids).index("\x1b]0;bad.png")]
    assert str(caught.value).isprintable()


@pytest.mark.skipif(os.name != "posix", reason="file names are bytes on POSIX only")
def test_names_that_are_not_utf8_become_text_that_can_be_written(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.png"
    try:
        with open(path, "wb") as file:
            file.write(png(Image.new("RGB", (2, 2))))
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    samples = open_samples(tmp_path)
    assert samples.ids[0].encode() == b"\\xff.png"
    assert samples[0].shape == (2, 2, 3)


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_links_are_followed_once_and_pipes_never_opened(tmp_path):
    save(tmp_path / "real" / "1.png")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "broken.png").symlink_to(tmp_path / "nowhere.png")
    os.mkfifo(tmp_path / "pipe.png")
    samples = open_samples(tmp_path, on_error="skip")
    (batch,) = samples.batches(10)
    assert batch.ids == ["real/1.png"]
    assert [error.id for error in samples.errors] == ["broken.png", "pipe.png"]
    assert "is a pipe; only regular files are read" in samples.errors[1].reason
    samples.fingerprint()


def test_no_other_program_decodes(tmp_path):
    """Pillow decodes PostScript by running Ghostscript, so it must not be recognised under any suffix."""
    (tmp_path / "page.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    with pytest.raises(SampleError, match="not an image of a known format"):
        open_samples(tmp_path)[0]


def test_a_folder_without_images_says_so(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(ValueError, match=r"must contain images \(.*\.png.*\); got 1 other files"):
        open_samples(tmp_path)


def test_a_zip_reads_like_its_folder(tmp_path):
    for i in (10, 2, 1):
        save(tmp_path / "in" / f"x/{i}.png", (i, 0, 0))
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for path in sorted((tmp_path / "in").rglob("*.png")):
            archive.write(path, path.relative_to(tmp_path / "in"))
        archive.writestr("__MACOSX/x/._1.png", b"junk")
        archive.writestr("readme.txt", b"hello")
    zipped, folder = open_samples(tmp_path / "images.zip"), open_samples(tmp_path / "in")
    assert list(zipped.ids) == list(folder.ids) == ["x/1.png", "x/2.png", "x/10.png"]
    assert zipped.ignored == 2
    for i in range(3):
        assert (zipped[i] == folder[i]).all()


@pytest.mark.parametrize("name", ["../../escape.png", "/etc/abs.png", "a/../../b.png", "..\\w.png", "C:/x.png"])
def test_zip_paths_that_leave_the_zip_are_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("good.png", png(Image.new("RGB", (2, 2))))
        archive.writestr(name, png(Image.new("RGB", (2, 2))))
    samples = open_samples(tmp_path / "evil.zip", on_error="skip")
    (batch,) = samples.batches(10)
    assert batch.ids == ["good.png"]
    assert [error.reason for error in samples.errors] == ["the path leaves the zip; refused"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evil.zip"]


def test_zip_bombs_and_damaged_zips_are_refused(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.png", b"\0" * 3_000_000)
    monkeypatch.setenv("PRECALL_MAX_BYTES", "8000000")
    with pytest.raises(ValueError, match=r"unpacks to 3,000,000 bytes from [0-9,]+: refused as a decompression bomb"):
        open_samples(tmp_path / "bomb.zip")
    monkeypatch.setenv("PRECALL_MAX_BYTES", "24000000")  # as the error says
    samples = open_samples(tmp_path / "bomb.zip")
    monkeypatch.setenv("PRECALL_MAX_BYTES", "1000000")
    with pytest.raises(SampleError, match=r"larger than 1,000,000 bytes. Set PRECALL_MAX_BYTES"):
        samples[0]
    (tmp_path / "not.zip").write_bytes(b"PK nothing")
    with pytest.raises(ValueError, match="must be a zip file"):
        open_samples(tmp_path / "not.zip")


def test_a_zip_member_with_wrong_bytes_is_one_error(tmp_path):
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a.png", png(Image.new("RGB", (8, 8), (1, 2, 3))))
    data = bytearray((tmp_path / "z.zip").read_bytes())
    data[60] ^= 255
    (tmp_path / "z.zip").write_bytes(data)
    with pytest.raises(SampleError, match=r"a\.png: the zip member is damaged"):
        open_samples(tmp_path / "z.zip")[0]


def test_large_files_are_refused(tmp_path, monkeypatch):
    save(tmp_path / "a.png")
    monkeypatch.setenv("PRECALL_MAX_BYTES", "10")
    with pytest.raises(SampleError, match=r"a\.png` is larger than 10 bytes. Set PRECALL_MAX_BYTES"):
        open_samples(tmp_path)[0]


def test_the_fingerprint_is_of_the_content(tmp_path):
    for i in range(3):
        save(tmp_path / "a" / f"{i}.png", (i, 0, 0))
        save(tmp_path / "b" / f"renamed{i}.png", (i, 0, 0))
    first = open_samples(tmp_path / "a").fingerprint()
    assert len(first) == 64
    assert first == open_samples(tmp_path / "b").fingerprint()
    save(tmp_path / "a" / "1.png", (200, 0, 0))
    assert open_samples(tmp_path / "a").fingerprint() != first


def test_the_index_spares_reading_unchanged_files_and_sees_changed_ones(tmp_path, monkeypatch):
    from precall.samples import hashing

    paths = [save(tmp_path / "a" / f"{i}.png", (i, 0, 0)) for i in range(3)]
    for path in paths:
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr(hashing, "FRESH", -(10**9))  # files that were written just now count as settled
    time.sleep(0.05)  # the change below has another time
    index = tmp_path / "index.json"
    samples = open_samples(tmp_path / "a")
    first = samples.fingerprint(index)
    assert first == samples.fingerprint()
    read = []
    monkeypatch.setattr(hashing, "of_file", lambda path, of=hashing.of_file: (read.append(path.name), of(path))[1])
    assert samples.fingerprint(index) == first
    assert read == []
    before = paths[1].stat()
    data = bytearray(paths[1].read_bytes())
    data[-1] ^= 1  # same size and modification time: only the change time reveals it (on POSIX)
    paths[1].write_bytes(data)
    os.utime(paths[1], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert samples.fingerprint(index) != first
    assert read == ["1.png"]
    index.write_text("[not an index")
    assert samples.fingerprint(index) == samples.fingerprint()


def test_freshly_written_files_are_not_trusted_to_the_index(tmp_path, monkeypatch):
    from precall.samples import hashing

    save(tmp_path / "a" / "1.png")
    samples = open_samples(tmp_path / "a")
    samples.fingerprint(tmp_path / "index.json")
    read = []
    monkeypatch.setattr(hashing, "of_file", lambda path, of=hashing.of_file: (read.append(path.name), of(path))[1])
    samples.fingerprint(tmp_path / "index.json")
    assert read == ["1.png"]


def test_sample_sets_do_not_change(tmp_path):
    save(tmp_path / "1.png")
    samples = open_samples(tmp_path)
    assert open_samples(samples) is samples
    assert isinstance(samples, SampleSet)
    with pytest.raises(AttributeError):
        samples.kind = "text"


# ------------------------------------------------------------------------------------------- images as people have them


def encoded(image, form, **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def sixteen_bits(kind, pixels, transparent=b""):
    """A PNG with 16 bits per channel; Pillow writes greyscale only."""

    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, kind, 0, 0, 0)
    chunks = [part(b"IHDR", header), part(b"IDAT", zlib.compress(rows)), part(b"IEND", b"")]
    if transparent:
        chunks.insert(1, part(b"tRNS", transparent))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def test_sixteen_bits_per_colour_keep_the_high_byte():
    values = np.array([[[0, 0x1234, 0xFFFF], [0xFEDC, 0x80FF, 0x0100]]], np.uint16)
    assert decode_image(sixteen_bits(2, values)).tolist() == (values >> 8).tolist()
    clear = np.concatenate([values, np.array([[[0xFFFF], [0]]], np.uint16)], axis=2)
    assert decode_image(sixteen_bits(6, clear)).tolist() == [[(values[0, 0] >> 8).tolist(), [255] * 3]]


def test_a_transparent_value_of_sixteen_bits_is_white():
    grey = np.array([[257, 514]], np.uint16)
    assert decode_image(sixteen_bits(0, grey, struct.pack(">H", 257)))[0, :, 0].tolist() == [255, 2]


@pytest.mark.parametrize("form", ["JPEG", "TIFF"])
def test_cmyk_becomes_rgb(form):
    image = Image.new("CMYK", (8, 8), (255, 0, 0, 0))  # cyan
    pixels = decode_image(encoded(image, form, **({"quality": 100} if form == "JPEG" else {})))
    assert np.abs(pixels.astype(int) - [0, 255, 255]).max() <= 3


def test_grey_with_alpha_is_composited():
    assert (decode_image(encoded(Image.new("LA", (2, 2), (0, 0)), "PNG")) == 255).all()
    assert (decode_image(encoded(Image.new("LA", (2, 2), (40, 255)), "PNG")) == 40).all()
    for form in ("TIFF", "WEBP"):
        assert (decode_image(encoded(Image.new("RGBA", (2, 2), (9, 9, 9, 0)), form)) == 255).all()


def test_a_palette_with_a_transparent_entry():
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert decode_image(encoded(image, "PNG")).tolist() == [[[10, 20, 30], [200, 100, 50]]]
    assert decode_image(encoded(image, "PNG", transparency=0)).tolist() == [[[255] * 3, [200, 100, 50]]]
    assert decode_image(encoded(image, "GIF", transparency=0)).tolist() == [[[255] * 3, [200, 100, 50]]]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_in_every_format(form, orientation):
    """The image after the rotation is the same, however the camera was held."""
    upright = np.zeros((16, 24, 3), np.uint8)
    upright[:8, :8] = 255
    # what the camera stores, so that the orientation turns it upright
    stored = {
        1: lambda x: x, 2: lambda x: x[:, ::-1], 3: lambda x: x[::-1, ::-1], 4: lambda x: x[::-1],
        5: lambda x: x.transpose(1, 0, 2), 6: lambda x: np.rot90(x), 7: lambda x: x.transpose(1, 0, 2)[::-1, ::-1],
        8: lambda x: np.rot90(x, -1),
    }[orientation](upright)  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 100}}.get(form, {})
    data = encoded(Image.fromarray(np.ascontiguousarray(stored)), form, exif=exif, **options)
    assert np.abs(decode_image(data).astype(int) - upright).max() <= 4
    with Image.open(io.BytesIO(data)) as image:  # as an object, too
        assert np.abs(open_samples([image])[0].astype(int) - upright).max() <= 4


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP", "TIFF"])
def test_animated_files_give_their_first_frame_and_a_notice(tmp_path, form):
    frames = [Image.new("RGB", (4, 4), (value,) * 3) for value in (200, 100, 0)]
    options = {"lossless": True} if form == "WEBP" else {}
    (tmp_path / "moving.png").write_bytes(encoded(frames[0], form, save_all=True, append_images=frames[1:], **options))
    save(tmp_path / "still.png", (1, 2, 3))
    samples = open_samples(tmp_path)
    list(samples.batches(2))
    assert (samples[0] == 200).all()
    assert samples.notes == ("1 images have several frames or pages, of which only the first is used: moving.png.",)


def test_the_notice_about_frames_is_kept_with_the_features(tmp_path):
    frames = [Image.new("L", (4, 4), value) for value in (200, 100)]
    for index in range(7):
        path = tmp_path / "images" / f"{index}.gif"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    for cached in (False, True):
        samples = open_samples(tmp_path / "images")
        assert encode(samples, "pixels", cache=tmp_path / "cache").cached == cached
        assert samples.notes[0].startswith("7 images have several frames")
        assert samples.notes[0].endswith("0.gif, 1.gif, 2.gif, 3.gif, 4.gif and 2 more.")


def test_images_that_cannot_be_converted_are_named(tmp_path):
    Image.fromarray(np.full((2, 2), 1 << 20, np.int32)).save(tmp_path / "depth.tif")
    with pytest.raises(SampleError, match=r"depth\.tif: pixels of mode I have no known range"):
        open_samples(tmp_path)[0]
