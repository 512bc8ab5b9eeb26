"""`python` without its imports: a process that has imported torch and scikit-learn forks one for each command.

python forks.py serve FD                  serve the listening socket with this number until nobody holds a connection
python -I -S forks.py NAME NEEDS WORDS…   run `python WORDS…` in a fork that has imported NEEDS, modules with commas

The second command has the output, the exit status, the working directory and the environment of `python WORDS…`, where
WORDS are a script, `-m module` or `-c code`, perhaps after `-W error`. It passes signals on. The commands of one server
have the same hash seed, the same locale and the same number of threads, their imports raise no warnings, and they do
not wait for the disk: tests of these need a process of their own.
"""

import contextlib
import errno
import json
import os
import selectors
import signal
import socket
import sys

BASE = (
    "torch", "sklearn.ensemble", "sklearn.linear_model", "sklearn.cluster", "scipy.stats", "scipy.optimize",
    "typer._adapters", "pydantic.plugin._loader", "precall.cli", "precall.encoders",
    "precall.metrics.assessing.assessment", "precall.cli.results_cache", "precall.report.folder",
    "precall.report.sample_table", "PIL.PngImagePlugin", "PIL.ImageOps", "precall.metrics.pairs.kernels",
    "precall.theory.frontiers", "rich.progress",
)  # fmt: skip
PASSED_ON = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SMALL = "PRECALL_TESTS_SMALL"  # as in tests/committee.py
LONGEST = 1 << 18  # bytes of a command with its environment


# ---------------------------------------------------------------------------------------------------------- the server


def serve(listening):
    """Fork a process for each command, until the last connection is closed."""
    load(BASE)
    selector, connections, running = selectors.DefaultSelector(), set(), {}
    selector.register(listening, selectors.EVENT_READ, "new")
    while True:
        for key, _ in selector.select():
            if key.data == "new":
                connection, _ = listening.accept()
                connections.add(connection)
                selector.register(connection, selectors.EVENT_READ, "command")
            elif key.data == "command":
                message, streams, _, _ = socket.recv_fds(key.fileobj, LONGEST, 3)
                if message:
                    command = json.loads(message)
                    if any(name not in sys.modules for name in command["needs"]):
                        load(command["needs"])
                    pid = os.fork()
                    if pid == 0:
                        close(selector)
                        become(command, streams)
                    for stream in streams:
                        os.close(stream)
                    key.fileobj.send(b"%d" % pid)
                    handle = os.pidfd_open(pid)
                    running[key.fileobj] = pid
                    selector.register(handle, selectors.EVENT_READ, (key.fileobj, pid))
                else:  # the other end is gone: whoever was killed takes the command along
                    if key.fileobj in running:
                        signal.pidfd_send_signal(os.pidfd_open(running[key.fileobj]), signal.SIGKILL)
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
                    connections.discard(key.fileobj)
            else:
                connection, pid = key.data
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                selector.unregister(key.fileobj)
                os.close(key.fileobj)
                del running[connection]
                if connection in connections:
                    with contextlib.suppress(OSError):
                        connection.send(b"%d" % status)
            if not connections and not running and not selector.select(0):
                listening.close()  # at once: whoever comes now starts another server
                os._exit(0)


def load(names):
    """Import modules once. Frozen objects are not looked at by garbage collections, which would copy them in a fork."""
    import gc
    import importlib

    for name in names:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def close(selector):
    """Close what a fork inherited: a connection ends when nobody holds it."""
    for key in list(selector.get_map().values()):
        os.close(key.fileobj) if isinstance(key.fileobj, int) else key.fileobj.close()
    selector.close()


def become(command, streams):
    """Turn this process, a fresh fork, into the command; never returns."""
    import tempfile
    import warnings

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for number in PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["environment"])
    tempfile.tempdir = None  # it may have been that of the server
    os.fsync = lambda number: None  # as in conftest.py
    if SMALL in os.environ:
        from types import SimpleNamespace

        import committee

        for name in os.environ[SMALL].split(","):
            getattr(committee, name)(SimpleNamespace(setattr=setattr))
    words = command["words"]
    if words[0] == "-W":
        warnings.simplefilter(words[1])
        words = words[2:]
    searched = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*filter(None, searched), *(one for one in sys.path[1:] if one not in searched)]
    leave(words)


def leave(words):
    """Run `python <words>`, and end as Python does, but without freeing all objects, which takes a second."""
    import atexit
    import threading

    status = 0
    try:
        execute(words)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if not isinstance(error.code, int | None):
            sys.stderr.write(f"{error.code}\n")
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(status & 0xFF)


def execute(words):
    """Run `python <words>`."""
    import runpy

    if words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        sys.path.insert(0, "")
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})
    elif words[0] == "-m":
        sys.argv[:] = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = words
        sys.path.insert(0, os.path.dirname(words[0]))
        runpy.run_path(words[0], run_name="__main__")


# ---------------------------------------------------------------------------------------------------------- the client


def connected(name):
    """A connection to the server of this name. The address is in Linux's memory, not in a folder."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(f"\0{name}")
    return connection


def held(name):
    """A connection to the server of this name, and the server if it had to be started."""
    import subprocess

    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            if bound(listening, name):
                number = listening.fileno()
                command = [sys.executable, __file__, "serve", str(number)]
                server = subprocess.Popen(command, pass_fds=[number], start_new_session=True)
                return connected(name), server
        with contextlib.suppress(ConnectionRefusedError):  # the server has just ended
            return connected(name), None


def bound(listening, name):
    """Whether the socket listens at this address now; not if there is a server."""
    try:
        listening.bind(f"\0{name}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    listening.listen(64)
    return True


def request(name, needs, words):
    """Have a command run, and end as it ends."""
    early = []
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: early.append(number))
    with connected(name) as connection:
        told = {"needs": needs, "words": words, "cwd": os.getcwd(), "environment": dict(os.environ)}
        socket.send_fds(connection, [json.dumps(told).encode()], [0, 1, 2])
        pid = int(connection.recv(64))
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: os.kill(pid, number))
        for number in early:
            os.kill(pid, number)
        status = int(connection.recv(64))
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has its default action always
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(socket.socket(fileno=int(sys.argv[2])))
    else:
        request(sys.argv[1], [name for name in sys.argv[2].split(",") if name], sys.argv[3:])
