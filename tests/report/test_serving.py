"""The served page: it appears when there are results, reloads when they change, and answers nobody else."""

import socket
import threading
import urllib.error
import urllib.request

import pytest

from precall.report import folder
from precall.report.serving import page_server


@pytest.fixture
def served(tmp_path):
    server = page_server(tmp_path / "report")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield tmp_path / "report", f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        return answer.read().decode()


def test_the_page_waits_for_results_and_changes_with_them(served, made):
    path, url = served
    assert "Waiting for results" in get(url)
    assert get(url + "version") == "none"
    folder.write(made("features").found, path)
    first = get(url + "version")
    page = get(url)
    assert f'"version":"{first}"' in page
    assert "connect-src 'self'" in page
    folder.write(made("images").found, path)
    assert get(url + "version") != first


def test_only_this_machine_is_answered(served):
    _, url = served
    for request in ({"Host": "evil.example"}, {"Host": "evil.example:80"}):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(url, **request)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(url + "../results.json")


def asked(url, request):
    """The answer to a request that is sent as it is."""
    port = int(url.rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(request.replace(b"PORT", str(port).encode()))
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


@pytest.mark.parametrize(
    "path", ["/../results.json", "/%2e%2e/results.json", "//etc/passwd", "/results.json", "/.", "/?a"]
)
def test_no_other_path_is_answered(served, path):
    said = asked(served[1], f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nConnection: close\r\n\r\n".encode())
    assert b" 404 " in said.splitlines()[0]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "HEAD", "<b>"])
def test_no_other_method_is_answered(served, method):
    said = asked(served[1], f"{method} / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\nConnection: close\r\n\r\n".encode())
    assert b" 501 " in said.splitlines()[0]
    assert b"<b>" not in said.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "host", ["", "Host: evil.example\r\n", "Host: 127.0.0.1\r\n", "Host: 127.0.0.1.evil.example:PORT\r\n"]
)
def test_no_other_host_is_answered(served, host):
    said = asked(served[1], f"GET / HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode())
    assert b" 403 " in said.splitlines()[0]


def test_other_origins_cannot_read_the_page(served):
    origin = b"Origin: http://evil.example\r\nConnection: close\r\n\r\n"
    said = asked(served[1], b"GET / HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n" + origin)
    assert b"Access-Control-Allow-Origin" not in said
    for header in (
        b"X-Content-Type-Options: nosniff",
        b"Cross-Origin-Resource-Policy: same-origin",
        b"X-Frame-Options: DENY",
    ):
        assert header in said


def test_an_open_page_reloads_when_a_model_is_added(served, made, browser):
    path, url = served
    found = made("images").found
    folder.write(type(found)({"drops": found["drops"]}), path)
    page = browser.new_page()
    page.goto(url)
    assert page.locator("#summary li").count() == 1
    folder.write(found, path)
    page.locator("#summary li").nth(3).wait_for(timeout=120_000)
    page.close()
