"""Results become a table, figures and a page. Nothing is estimated here: what is shown is read off the results.

Everything here takes a `Comparison` (or an `Assessment`) and nothing else; a saved report is loaded into one first.
Code that computes a number belongs in `precall.metrics`, code that talks to a terminal in `precall.cli`.
"""
