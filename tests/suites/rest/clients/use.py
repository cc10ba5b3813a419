"""Uses a generated client as a program would, and prints what came of it as JSON. Checked by mypy, run by Python."""

import asyncio
import json
import sys
from typing import Any, assert_never

import httpx
from client import (
    AsyncClient,
    Client,
    ConfirmationNeeded,
    Err,
    EventReader,
    InputRequired,
    InvalidInput,
    LogRecord,
    MeasureInput,
    Ok,
    Outcome,
    Problem,
    ProgressRecord,
    ResultRecord,
    SentinelError,
    ToolFailed,
    text_of,
)

BASE_URL, CLOSED, VECTORS = sys.argv[1:4]

INPUT: MeasureInput = {
    "shapes": [{"kind": "circle", "radius": 1}, {"kind": "rectangle", "width": 2, "height": 3}],
    "unit": "cm",
    "note": None,
    "origin": [0, 0],
    "weights": {"circle": 2},
    "tree": {"name": "a", "children": [{"name": "b"}]},
    "options": {"round-to": 2},
}


def told(problem: Problem) -> str:
    match problem:
        case InvalidInput():
            return f"{problem.status} {','.join(issue['pointer'] for issue in problem.issues)}"
        case ToolFailed():
            return f"{problem.status} {text_of({'content': problem.content})}"
        case InputRequired():
            return f"{problem.status} {','.join(asked['method'] for asked in problem.input_requests.values())}"
        case ConfirmationNeeded():
            return f"{problem.status} {problem.confirmation_token}"
    return f"{problem.status} {problem.code}"


def failed(outcome: Outcome[Any]) -> str:
    match outcome:
        case Ok():
            return "no failure"
        case Err(problem):
            return told(problem)
        case _:
            assert_never(outcome)


def calls(client: Client) -> dict[str, Any]:
    measured = client.tools.measure(INPUT)
    total: float = measured["total"]
    try:
        client.read("nowhere://at/all")
        unknown = ""
    except SentinelError as error:
        unknown = told(error.problem)
    return {
        "measured": [total, measured["unit"], measured["by_kind"]["circle"], measured["depth"], measured.get("note")],
        "echo": text_of(client.tools.echo({"text": "größe 😀"})),
        "withoutInput": "sentinel" in text_of(client.tools.whoami({})),
        "prompt": client.prompts.greet({"who": "Ada"})["messages"][0]["content"],
        "text": client.read("test://static").text,
        "template": client.read("test://items/a b").type,
        "binary": list(client.read("test://binary").content[1:4]),
        "unknownResource": unknown,
    }


def problems(client: Client) -> dict[str, Any]:
    wrong: Any = {"shapes": [{"kind": "circle", "radius": -1}], "unit": "inch"}
    thrown = ""
    try:
        client.tools.fail({"text": "it broke"})
    except SentinelError as error:
        thrown = f"{error}; {told(error.problem)}"
    html = httpx.MockTransport(lambda request: httpx.Response(502, text="<h1>Bad Gateway</h1>"))
    with httpx.Client(transport=html) as http, Client(CLOSED) as closed:
        return {
            "invalid": failed(client.tools.measure.safe(wrong)),
            "thrown": thrown,
            "timedOut": failed(client.tools.late.safe({"ms": 60_000}, timeout=0.2)),
            "closed": failed(closed.tools.echo.safe({"text": ""})),
            "proxy": failed(Client(BASE_URL, http=http).tools.echo.safe({"text": ""})),
        }


def streams(client: Client) -> dict[str, Any]:
    records = list(client.tools.chatty.stream({"n": 3}))
    last, partly, problem = records[-1], 0.0, ""
    for record in client.tools.chatty.stream({"n": 1000, "ms": 50}):
        partly = record.progress if isinstance(record, ProgressRecord) else partly
        break
    try:
        list(client.tools.fail.stream({"text": "it broke"}))
    except SentinelError as error:
        problem = told(error.problem)
    return {
        "progress": [record.progress for record in records if isinstance(record, ProgressRecord)],
        "logs": sum(isinstance(record, LogRecord) for record in records),
        "result": text_of(last.result) if isinstance(last, ResultRecord) else "",
        "partly": partly,
        "problem": problem,
    }


def questions(client: Client) -> dict[str, Any]:
    asked = client.tools.ask.safe({"message": "Who?"})
    if not (isinstance(asked, Err) and isinstance(asked.problem, InputRequired)):
        return {"asked": repr(asked)}
    question = next(iter(asked.problem.input_requests))
    answers = {question: {"action": "accept", "content": {"name": "Ada"}}}
    done = client.tools.ask.resume(asked.problem, answers)
    try:
        list(client.tools.ask.stream({"message": "Who?"}))
        streamed = ""
    except SentinelError as error:
        streamed = told(error.problem)
    return {"done": text_of(done), "asked": streamed}


def headers() -> dict[str, Any]:
    sent: dict[str, Any] = {}

    def spy(request: httpx.Request) -> None:
        for name in ("authorization", "x-extra", "idempotency-key", "x-confirmation-token", "x-own"):
            sent[name] = request.headers.get(name)

    with httpx.Client(event_hooks={"request": [spy]}) as http:
        own = Client(BASE_URL + "/", token=lambda: "secret", headers={"X-Extra": "1"}, http=http)
        own.tools.echo({"text": ""}, idempotency_key="k", confirmation_token="c", headers={"x-own": "2"})
    return sent


def events() -> list[str]:
    """Events whose bytes come in two pieces, cut at every place."""
    wrong = []
    for name, text, data in json.loads(VECTORS):
        whole = text.encode()
        for cut in range(len(whole) + 1):
            reader = EventReader()
            found = [*reader.push(whole[:cut]), *reader.push(whole[cut:]), *reader.end()]
            if found != data:
                wrong.append(f"{name}, cut at {cut}: {found}")
    return wrong


async def asynchronously() -> dict[str, Any]:
    async with AsyncClient(BASE_URL) as client:
        measured = await client.tools.measure(INPUT)
        records = [record async for record in client.tools.chatty.stream({"n": 3})]
        async for _ in client.tools.chatty.stream({"n": 1000, "ms": 50}):
            break
        asked = await client.tools.ask.safe({"message": "Who?"})
        assert isinstance(asked, Err) and isinstance(asked.problem, InputRequired)
        question = next(iter(asked.problem.input_requests))
        done = await client.tools.ask.resume(asked.problem, {question: {"action": "decline"}})
        return {
            "total": measured["total"],
            "records": [type(record).__name__ for record in records],
            "failed": failed(await client.tools.fail.safe({"text": "it broke"})),
            "declined": text_of(done),
            "prompt": (await client.prompts.plain({}))["messages"][0]["role"],
            "resource": (await client.read("test://static")).text,
        }


def main() -> None:
    with Client(BASE_URL, timeout=20) as client:
        found = {**calls(client), **problems(client), **streams(client), **questions(client)}
    found |= {"headers": headers(), "events": events(), "asynchronously": asyncio.run(asynchronously())}
    print(json.dumps(found))


main()
