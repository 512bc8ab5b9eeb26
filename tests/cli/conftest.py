"""Small networks: the commands are tested here, and the published networks in tests/tune."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def small_networks():
    """Perceptrons for points are those for tiny images: of a twentieth of the parameters, and as quick to save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("precall.tune.families._tiny", lambda shape: True)
        yield
