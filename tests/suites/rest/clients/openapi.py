"""Uses what openapi-python-client makes of /openapi.json. Checked by mypy, run by Python."""

import json
import sys

from catalog import Client
from catalog.api.fixture import chatty, echo, fail, get_echo, measure
from catalog.models import ChattyInput, ContentResult, EchoInput, FailInput, MeasureInput, MeasureOutput, Problem

BASE_URL = sys.argv[1]


def main() -> None:
    with Client(base_url=BASE_URL) as client:
        shapes = [{"kind": "circle", "radius": 1}, {"kind": "rectangle", "width": 2, "height": 3}]
        body = MeasureInput.from_dict({"shapes": shapes, "unit": "cm", "weights": {"circle": 2}})
        measured = measure.sync(client=client, body=body)
        assert isinstance(measured, MeasureOutput), measured
        total: float = measured.total
        echoed = echo.sync(client=client, body=EchoInput(text="größe"))
        assert isinstance(echoed, ContentResult), echoed
        got = get_echo.sync(client=client, text="größe & more")
        assert isinstance(got, ContentResult), got
        failed = fail.sync_detailed(client=client, body=FailInput(text="it broke"))
        assert isinstance(failed.parsed, Problem), failed
        request = chatty._get_kwargs(body=ChattyInput(n=3))
        request["headers"] = {**request["headers"], "Accept": "text/event-stream"}
        with client.get_httpx_client().stream(**request) as stream:
            records = [line.removeprefix("event: ") for line in stream.iter_lines() if line.startswith("event: ")]
        found = {
            "total": total,
            "echoed": echoed.to_dict()["content"][0]["text"],
            "got": got.to_dict()["content"][0]["text"],
            "failed": [failed.status_code, failed.parsed.code, failed.parsed.detail],
            "records": records,
        }
    print(json.dumps(found))


main()
