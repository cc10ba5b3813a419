"""Mistakes that the type checker must find: it complains about a comment without one."""

from client import Client, Ok


def mistakes(client: Client) -> None:
    client.tools.no_such_operation({})  # type: ignore[attr-defined]
    client.tools.measure({"shapes": []})  # type: ignore[typeddict-item]
    client.tools.measure()  # type: ignore[call-arg]
    client.tools.echo({"text": 5})  # type: ignore[typeddict-item]
    client.tools.echo({"text": "", "loud": True})  # type: ignore[typeddict-unknown-key]
    client.tools.measure({"shapes": [], "unit": "inch"})  # type: ignore[typeddict-item]
    client.tools.measure({"shapes": [], "unit": "mm", "tree": {"name": "a", "children": [{"name": 5}]}})  # type: ignore[typeddict-item]
    client.tools.measure({"shapes": [], "unit": "mm"})["sum"]  # type: ignore[typeddict-item]
    client.tools.echo({"text": ""}, idempotency="k")  # type: ignore[call-arg]
    client.prompts.greet({})  # type: ignore[typeddict-item]
    outcome = client.tools.measure.safe({"shapes": [], "unit": "mm"})
    outcome.value  # type: ignore[union-attr]
    if isinstance(outcome, Ok):
        outcome.value["total"].no_such_method()  # type: ignore[attr-defined]
