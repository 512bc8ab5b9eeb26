"""Compare videos by the Fréchet distance of their frames' features, in the manner of FVD.

With folders of clips, on the command line:
    PYTHONPATH=examples precall assess --real files:real/ --fake files:fake/ --encoder video_files:encode --metrics fid
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageSequence

import precall
from precall.encoders import Encoder, load_encoder

frames_of, FRAMES = load_encoder("random-vgg", device="cpu"), 4


def read(path):
    """Evenly spaced frames of an animated GIF; another decoder reads other formats."""
    with Image.open(path) as clip:
        frames = [np.asarray(frame.convert("RGB")) for frame in ImageSequence.Iterator(clip)]
    return [frames[i] for i in np.linspace(0, len(frames) - 1, FRAMES).astype(int)]


def encode(paths):
    """One row per clip: the mean of its frames' features, and their mean change from frame to frame."""
    frames = [frame for path in paths for frame in read(path)]
    features = frames_of.encode(frames).reshape(len(paths), FRAMES, -1)
    return np.hstack([features.mean(axis=1), np.abs(np.diff(features, axis=1)).mean(axis=1)])


def clips(folder, n, speed, rng):
    """Clips of a white square that moves to the right."""
    folder.mkdir()
    for i in range(n):
        x, y = rng.integers(0, 8, size=2)
        frames = [np.zeros((32, 32), np.uint8) for _ in range(6)]
        for t, frame in enumerate(frames):
            frame[y : y + 8, x + speed * t : x + speed * t + 8] = 255
        first, *others = map(Image.fromarray, frames)
        first.save(folder / f"{i}.gif", save_all=True, append_images=others)
    return f"files:{folder}"


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    video = Encoder("video", "files", {"frames": FRAMES, "network": dict(frames_of.protocol)}, str, encode)
    with tempfile.TemporaryDirectory() as place:
        real = clips(Path(place, "real"), 32, 2, rng)
        fakes = {"as fast": clips(Path(place, "same"), 32, 2, rng), "frozen": clips(Path(place, "frozen"), 32, 0, rng)}
        found = precall.assess(real=real, fake=fakes, encoder=video, metrics=("fid",), k=3)
    print(*(f"{name}: Fréchet distance {one.scores['fid'].value:.3g}" for name, one in found.items()), sep="\n")
