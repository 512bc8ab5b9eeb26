"""Published protocols, several encoders, and comparisons beside a score. No metric belongs here."""
