import pytest
from sdk_callers import WAYS
from world import WORLD, world

import harness


@pytest.fixture(scope="session", autouse=True)
def running_world():
    harness.need(harness.NODE, harness.PYTHON)
    with harness.scratch() as folder, world(folder) as told:
        WORLD.update(told)
        yield told


@pytest.fixture(scope="session", params=WAYS)
def caller(request, running_world):
    """The merged catalog, as each kind of caller sees it."""
    made = WAYS[request.param]()
    made.way = request.param
    yield made
    made.close()
