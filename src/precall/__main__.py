"""`python -m precall` is `precall`."""

from precall.cli import app

app(prog_name="precall")
