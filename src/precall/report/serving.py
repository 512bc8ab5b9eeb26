"""A page that is served to this machine only, drawn again whenever the results change."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from precall.report import folder, page

PATIENCE = 30  # seconds after which a request that is not complete is dropped
# other websites can neither read the page nor show it inside their own
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}
WAITING = '<!doctype html><meta http-equiv="refresh" content="2"><title>precall report</title><p>Waiting for results.'


def page_server(results: str | Path) -> ThreadingHTTPServer:
    """A server of the page of saved results, on a free port of 127.0.0.1; call `serve_forever` on it.

    It answers `/` with the page and `/version` with a string that changes with the results; the page asks for it every
    two seconds and reloads when it has changed. Requests that name another host are refused, so that no other website
    can read the results. The folder or file of results need not exist yet.
    """
    watched = Path(results)

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self) -> None:
            if self.headers.get("Host") not in {f"{host}:{server.server_port}" for host in ("127.0.0.1", "localhost")}:
                return self._answer(403, "text/plain", "This server answers to 127.0.0.1 only.")
            if self.path == "/version":
                return self._answer(200, "text/plain", _version(watched))
            if self.path != "/":
                return self._answer(404, "text/plain", "There is nothing here.")
            return self._answer(200, "text/html", _drawn(watched))

        def _answer(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing: the library never prints."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    return server


def _version(results: Path) -> str:
    """The time and size of the results on disk, or "none"."""
    try:
        found = (results / folder.RESULTS if results.is_dir() else results).stat()
    except OSError:
        return "none"
    return f"{found.st_mtime_ns}-{found.st_size}"


def _drawn(results: Path) -> str:
    """The page, or one that waits if there are no complete results yet."""
    version = _version(results)  # before loading: if the results change meanwhile, the page reloads
    try:
        return page.render(folder.load(results), command=folder.command_of(results), version=version)
    except (ValueError, OSError):
        return WAITING
