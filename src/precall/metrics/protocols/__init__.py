"""Published protocols, several encoders, and comparisons beside a score: real against real, other k and n.

No metric belongs here.
"""
