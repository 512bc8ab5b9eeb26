"""Attacks on precall: damaged files, hostile command lines, kills, flipped bits and hostile surroundings.

`tests/faults` runs a few of each, `python -m benchmarks.attack` as many as its time allows. Every attack is a function
of a seed and an index, so that a finding can be repeated.

    mutations.py     damage to files
    children.py      forked processes with limits on time and memory
    inputs.py        every reader, with damaged files
    playground.py    a folder with samples, hostile files and a picture of its state
    arguments.py     random command lines of every command
    kills.py         signals at random moments, then the same command again
    flips.py         single bits of caches and checkpoints
    surroundings.py  full disks, two processes, clocks, locales, umasks, read-only folders
"""
