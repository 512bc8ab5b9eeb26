"""A file that is written atomically is complete or unchanged."""

import numpy as np
import pytest

from precall.files import open_atomically, write_atomically


def test_an_interrupted_write_leaves_the_previous_file_and_nothing_else(tmp_path):
    path = tmp_path / "data.bin"
    write_atomically(path, b"before")

    def interrupted():
        with open_atomically(path) as file:
            file.write(b"half")
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        interrupted()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_blocks_are_written_in_order_and_missing_folders_are_created(tmp_path):
    path = tmp_path / "new" / "data.bin"
    write_atomically(path, b"ab", np.array([[1, 2], [3, 4]], dtype=np.uint8).T)
    assert path.read_bytes() == b"ab\x01\x03\x02\x04"
