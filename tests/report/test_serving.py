"""The served page: it appears when there are results, reloads when they change, and answers nobody else."""

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
