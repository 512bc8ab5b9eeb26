"""Where independent tasks run: in threads of this process (`local`), or on a Ray cluster (`ray`).

An engine runs functions whose results are arrays, and a `Runner` returns these results in the order of the tasks and
keeps them in a work folder, so that an interrupted run continues where it stopped. What a task computes does not belong
here: this room knows nothing of samples and metrics. It contains no scheduler either; Ray has one.
"""
