"""Compare time series, one CSV file each, by their moments, autocorrelations and spectra.

With folders of CSV files, on the command line:
    PYTHONPATH=examples precall assess --real files:real/ --fake files:fake/ --encoder series_files:encode
"""

import tempfile
from pathlib import Path

import numpy as np

import precall
from precall.encoders import Encoder

LAGS, BANDS = (1, 2, 4, 8, 16), 8


def encode(paths):
    """One row per series of any length."""
    return np.stack([_summary(np.loadtxt(path, delimiter=",", ndmin=1)) for path in paths])


def _summary(x):
    """Mean, log spread, autocorrelations, and the logarithmic energy of eight bands of the spectrum."""
    centred = x - x.mean()
    spread = centred.std() + 1e-12
    correlations = [(centred[lag:] * centred[:-lag]).mean() / spread**2 for lag in LAGS]
    power = np.abs(np.fft.rfft(centred / spread)[1:]) ** 2 / len(x)
    bands = [np.log(1e-6 + band.mean()) for band in np.array_split(power, BANDS)]
    return np.array([x.mean(), np.log(spread), *correlations, *bands])


def series(folder, n, memory, rng):
    """Autoregressive series x_t = memory x_{t−1} + noise."""
    folder.mkdir()
    for i in range(n):
        x = np.zeros(128)
        for t, noise in enumerate(rng.normal(size=len(x) - 1), start=1):
            x[t] = rng.choice(memory) * x[t - 1] + noise
        np.savetxt(folder / f"{i}.csv", x, delimiter=",")
    return f"files:{folder}"


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    encoder = Encoder("series", "files", {"lags": list(LAGS), "bands": BANDS}, str, encode)
    with tempfile.TemporaryDirectory() as place:
        real = series(Path(place, "real"), 150, [0.8], rng)
        fakes = {
            "same": series(Path(place, "same"), 150, [0.8], rng),
            "no memory": series(Path(place, "no"), 150, [0.0], rng),
        }
        found = precall.assess(real=real, fake=fakes, encoder=encoder, metrics=("linear", "neighbors"))
    print(*(f"{name}: {one.verdict}" for name, one in found.items()), sep="\n")
