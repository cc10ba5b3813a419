"""The review broker as agents use it: two real SDK clients, restarts, kills and a full disk.

The proposer and the reviewer are clients of the Python SDK over HTTP, in every pairing of eras. A check is a coroutine; what
it returns is a figure, printed behind its name.
"""

import asyncio
import inspect
from types import SimpleNamespace

import harness
import pytest

LIMIT_S = 280


@pytest.fixture
def options(request):
    given = request.config.option
    return SimpleNamespace(long=given.long, kills=50 if given.long else given.kills)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    limit_s = None if pyfuncitem.config.option.long else LIMIT_S
    try:
        note = asyncio.run(asyncio.wait_for(pyfuncitem.obj(**wanted), limit_s))
    except Exception:
        for log in wanted["folder"].glob("*.log"):
            print(f"{log.name}:\n{harness.tail(log)}")
        raise
    if note:
        pyfuncitem.config.sentinel.notes["review"].append(f"  {pyfuncitem.name}: {note}")
    return True
