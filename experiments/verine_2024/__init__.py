"""Figures and tables of Verine (2024), *Quality and diversity in generative models through the lens of f-divergences*.

Each module is named after the figure or table that it reproduces, most of them at a smaller scale. `results/` holds
the published numbers.
"""
