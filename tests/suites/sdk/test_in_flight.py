"""Many calls at once through one server on the Python SDK, in the catalog beside all the others."""

import asyncio
import uuid

from sdk_callers import LIMIT_S, eventually, text

CALLS = 50


def test_g_56_fifty_calls_are_in_flight_through_a_python_server_that_answers_in_reverse(caller):
    assert eventually(lambda: "meet" in caller.tools())
    party = str(uuid.uuid4())

    async def all_at_once():
        calls = (caller.client.call_tool("meet", {"party": party, "number": n, "of": CALLS}) for n in range(CALLS))
        return await asyncio.gather(*calls)

    answers = asyncio.run_coroutine_threadsafe(all_at_once(), caller.loop).result(LIMIT_S)
    assert [text(answer) for answer in answers] == [f"{party} {n}" for n in range(CALLS)]
