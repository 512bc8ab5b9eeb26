"""The way of the real rows through `assess`: few files, and few returns to a file that was left before."""

from tools import walk


def test_real_rows_pass_few_files_and_rarely_return():
    files, returns = walk.counted(walk.walk("auto"))
    assert files <= 12
    assert returns <= 8
