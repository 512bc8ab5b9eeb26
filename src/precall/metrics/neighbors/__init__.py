"""Every k-nearest-neighbour quantity of two sample sets, from one exact pass over the pairs.

    sweep       the pass itself: `within`, `cross`, `sweep`
    distances   bounded float32 tiles of squared distances, settled in float64
    tallies     decisions from those bounds: who is nearest, who lies in whose ball
    scores      `Neighborhoods`: precision, recall, density, coverage, … read off the counts
    cover       the precision-recall curve from the counts
    metrics     these readings, as the registry knows them

Expected values under P = Q are exact mathematics and live in `precall.theory.chance`.
"""
