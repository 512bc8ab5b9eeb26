"""From the arguments of `assess` to checked features: sides, equal rows, notices. No score belongs here."""
