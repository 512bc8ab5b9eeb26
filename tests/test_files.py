"""The write door: regular files only, atomically, and never into a source."""

import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from precall import files
from precall.files import check_output, check_output_folder, one_per_line, open_atomically, write_atomically


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


def test_a_file_is_on_the_disk_before_it_takes_the_place_of_another(tmp_path, monkeypatch):
    """Otherwise a power failure could leave an empty file there."""
    done = []
    monkeypatch.setattr(os, "fsync", lambda number: done.append(f"{os.fstat(number).st_size} bytes on the disk"))
    monkeypatch.setattr(os, "replace", lambda before, after: done.append("renamed"))
    write_atomically(tmp_path / "data.bin", b"new")
    assert done == ["3 bytes on the disk", "renamed"]


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def make_folder(path):
    path.mkdir()


def make_link(path):
    (path.parent / "elsewhere").write_bytes(b"kept")
    path.symlink_to("elsewhere")


def make_dangling_link(path):
    path.symlink_to("nowhere")


def make_link_to_a_device(path):
    path.symlink_to(os.devnull)


def make_device(path):
    try:
        os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can create device nodes")


@pytest.mark.parametrize(
    "make",
    [make_pipe, make_socket, make_folder, make_link, make_dangling_link, make_link_to_a_device, make_device],
)
def test_only_regular_files_are_replaced(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "out.npy"
    make(path)
    before = path.lstat()
    for attempt in (lambda: write_atomically(path, b"new"), lambda: check_output(path)):
        with pytest.raises(files.OutputError, match="only regular files can be written"):
            attempt()
    after = path.lstat()
    assert (before.st_mode, before.st_ino) == (after.st_mode, after.st_ino)
    assert not list(tmp_path.glob(".precall*"))
    if (tmp_path / "elsewhere").exists():
        assert (tmp_path / "elsewhere").read_bytes() == b"kept"


def test_what_takes_the_place_during_the_write_is_not_replaced(tmp_path):
    path = tmp_path / "out.npy"

    def overtaken():
        with open_atomically(path) as file:
            file.write(b"new")
            os.mkfifo(path)

    with pytest.raises(files.OutputError, match="a pipe"):
        overtaken()
    assert path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_write_protected_file_is_kept(tmp_path):
    path = tmp_path / "out.npy"
    path.write_bytes(b"kept")
    path.chmod(0o444)
    with pytest.raises(files.OutputError, match="write-protected"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"kept"


def test_a_file_that_another_process_removes_meanwhile_is_not_write_protected(tmp_path, monkeypatch):
    path, access = tmp_path / "a", os.access
    path.write_text("before")

    def removed(*arguments, **options):
        path.unlink(missing_ok=True)
        return access(*arguments, **options)

    monkeypatch.setattr(os, "access", removed)
    check_output(path)
    write_atomically(path, b"after")
    assert path.read_bytes() == b"after"


def test_an_output_is_never_a_source_nor_inside_one(tmp_path):
    source, other = tmp_path / "source", tmp_path / "other"
    (source / "below").mkdir(parents=True)
    other.mkdir()
    (tmp_path / "link").symlink_to(source)
    (tmp_path / "data.npy").write_bytes(b"")
    os.link(tmp_path / "data.npy", other / "same.npy")
    inside = [
        source / "out",
        source,
        source / "below" / "new" / "out",
        tmp_path / "link" / "out",
        other / "../source/a",
    ]
    for path in inside:
        for check in (check_output, check_output_folder):
            with pytest.raises(files.OutputError, match="inside, one of the sources"):
                check(path, sources=[other, source])
    with pytest.raises(files.OutputError, match="inside, one of the sources"):
        check_output(other / "same.npy", sources=[tmp_path / "data.npy"])
    for path in (tmp_path / "out.npy", tmp_path / "source-2" / "out.npy", other / "out.npy"):
        check_output(path, sources=[source, tmp_path / "data.npy", "nowhere"])
        check_output_folder(path, sources=[source])


def test_a_folder_of_results_is_not_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(files.OutputError, match="must be a folder; it is a file"):
        check_output_folder(tmp_path / "file")
    (tmp_path / "link").symlink_to(tmp_path)
    check_output_folder(tmp_path / "link")


def test_a_name_of_255_bytes_can_be_written(tmp_path):
    write_atomically(tmp_path / ("a" * 255), b"new")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


@pytest.mark.parametrize("name", ["a\nb", "a\r", "\n", "a\u2028b", ""])
def test_a_name_that_is_not_one_line_is_refused(name):
    with pytest.raises(ValueError, match="one name per line"):
        one_per_line(["a.png", name])


def test_a_full_disk_is_reported_with_the_file_and_leaves_nothing(tmp_path):
    code = (
        "import resource, sys; from pathlib import Path; from precall.files import write_atomically\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: write_atomically(Path(sys.argv[1]), b'x' * 5000)\n"
        "except OSError as error: print(error)"
    )
    path = tmp_path / "out.npy"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"[Errno 27] File too large: '{path}'"
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------ abandoned files


@pytest.fixture
def killed(tmp_path):
    """A folder with the temporary file of a process that was killed while it wrote."""
    code = (
        "import os, sys, time; from pathlib import Path; from precall.files import open_atomically\n"
        "with open_atomically(Path(sys.argv[1]) / 'data.bin') as file:\n"
        "    print('writing', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "writing\n"
        yield tmp_path, process
        process.kill()


def age(folder, seconds):
    (path,) = folder.glob(".precall-*.tmp")
    os.utime(path, (time.time() - seconds,) * 2)


def test_what_a_killed_process_left_is_removed_by_the_next_write(killed):
    folder, process = killed
    process.kill()
    process.wait()
    age(folder, 3600)
    write_atomically(folder / "other.bin", b"new")
    assert [path.name for path in folder.iterdir()] == ["other.bin"]


def test_what_another_process_is_writing_is_left_alone(killed):
    folder, _ = killed
    age(folder, 3600)
    write_atomically(folder / "other.bin", b"new")
    assert len(list(folder.glob(".precall-*.tmp"))) == 1


def test_a_temporary_file_that_was_just_created_is_left_alone(killed):
    folder, process = killed
    process.kill()
    process.wait()
    write_atomically(folder / "other.bin", b"new")
    assert len(list(folder.glob(".precall-*.tmp"))) == 1
