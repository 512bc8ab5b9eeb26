"""Benchmarks: measurements of time, memory and estimation error, run from a checkout on a quiet machine.

    python -m benchmarks.neighbors --smoke
    make bench

What belongs here: one module per subject that measures the library and prints a table. `--smoke` runs a module at tiny
sizes in seconds, and `--out FILE` also writes the numbers as JSON, with facts about the machine; `results/` holds the
published files. Command line, saving and timing are in `common`; `pool` runs the long ones (`curve_error`, `sanity`,
`coverage`) in several processes, resumes them and writes their pages in docs/. `same_numbers` is not a measurement: it
compares the numbers of twenty assessments before and after a change of the code. `mutants` counts how many
faults in the code the tests notice (`make mutants`).

What does not belong here: programs that train models to reproduce a figure (`experiments/`), and tests. Benchmarks use
only public names of precall.
"""
