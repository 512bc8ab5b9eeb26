"""Results as a table, figures and a page. Nothing is estimated here: everything shown comes from the results.

All functions take a `Comparison` (or an `Assessment`) and nothing else; a saved report is loaded into one first. Code
that computes a number belongs in `precall.metrics`, and code that writes to a terminal in `precall.cli`.
"""
