"""Compare recordings by Fréchet and kernel distances of their spectra, in the manner of FAD and KAD.

With folders of WAV files, on the command line:
    PYTHONPATH=examples precall assess --real files:real/ --fake files:fake/ --encoder audio_files:encode --metrics kid
"""

import tempfile
import wave
from pathlib import Path

import numpy as np

import precall
from precall.encoders import Encoder

RATE, WINDOW, BANDS = 8000, 256, 16


def read(path):
    """The samples of a mono WAV file with 16 bits, from −1 to 1."""
    with wave.open(str(path)) as file:
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768


def encode(paths):
    """One row per file: mean and spread over time of the logarithmic energy in 16 bands."""
    return np.stack([_bands(read(path)) for path in paths])


def _bands(sound):
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[:: WINDOW // 2] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(windows)[:, 1:]) ** 2
    energy = np.log(1e-6 + power.reshape(len(power), BANDS, -1).mean(axis=2))
    return np.concatenate([energy.mean(axis=0), energy.std(axis=0)])


def recordings(folder, n, low, high, rng):
    """Tones of random pitch with noise."""
    folder.mkdir()
    time = np.arange(RATE // 4) / RATE
    for i in range(n):
        sound = 0.5 * np.sin(2 * np.pi * rng.uniform(low, high) * time) + rng.normal(0, 0.02, time.size)
        with wave.open(str(folder / f"{i}.wav"), "wb") as file:
            file.setparams((1, 2, RATE, 0, "NONE", "not compressed"))
            file.writeframes((sound * 32767).astype("<i2").tobytes())
    return f"files:{folder}"


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    audio = Encoder("audio", "files", {"rate": RATE, "window": WINDOW, "bands": BANDS}, str, encode)
    with tempfile.TemporaryDirectory() as place:
        real = recordings(Path(place, "real"), 100, 200, 3000, rng)
        fakes = {"all pitches": recordings(Path(place, "all"), 100, 200, 3000, rng)}
        fakes["low pitches"] = recordings(Path(place, "low"), 100, 200, 900, rng)
        found = precall.assess(real=real, fake=fakes, encoder=audio, metrics=("fid", "kid"))
    for name, one in found.items():
        print(f"{name}: Fréchet distance {one.scores['fid'].value:.3g}, kernel distance {one.scores['kid'].value:.3g}")
