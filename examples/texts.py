"""Find the sentences of the data that a model misses, and the sentences that it invents."""

import numpy as np

import precall

rng = np.random.default_rng(0)
animals, deeds, places = ["cat", "dog", "heron"], ["sleeps", "waits", "sings"], ["in the garden", "by the river"]


def write(n, animals, deeds):
    return [f"the {rng.choice(animals)} {rng.choice(deeds)} {rng.choice(places)} {rng.integers(99)}" for _ in range(n)]


real = write(300, animals, deeds)
fake = write(300, animals[:2], [*deeds, "zzzz"])  # no herons, and one word that is not in the data

report = precall.assess(real=real, fake=fake, encoder="ngrams", metrics=("linear", "neighbors"))
print(report.verdict)
missed = np.argsort(-report.real.log_ratio)[:3]
invented = np.argsort(report.fake.log_ratio)[:3]
print("missed:  ", *(real[i] for i in missed), sep="\n  ")
print("invented:", *(fake[i] for i in invented), sep="\n  ")
