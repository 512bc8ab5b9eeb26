"""Small networks and empty pictures: the commands are tested here, networks and pictures in tests/tune."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def small_networks():
    """Perceptrons for points are those for tiny images: of a twentieth of the parameters, and as quick to save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("precall.tune.families._tiny", lambda shape: True)
        yield


@pytest.fixture(autouse=True)
def empty_pictures(request, monkeypatch):
    """Pictures of training runs take half of the time of short runs."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr("precall.tune.pictures.write", lambda figure, path: path.touch() or True)
