"""The broker as agents and people use it."""

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import time
import uuid

import harness
from mcp import Client, MCPError

from broker import DIFF, LEGACY, LIMIT_S, MODERN, PATCH, agent, broker, check, look, postgresql


async def ten_steps(url, eras):
    """B-45, as the seed tells it."""
    async with agent(url, eras[0]) as proposer, agent(url, eras[1]) as reviewer:
        me = {"reviewer_id": "codex-1"} if eras[1] == MODERN else {}
        made = await proposer.submit_proposal(
            intent="call run", diff=DIFF, agent_type="gsd-executor", phase="3.2", plan="p", task="7", project="demo"
        )
        review = {"review_id": made["review_id"]}
        check(made["status"] == "created", made)
        check(made["affected_files"] == [{"path": "src/lib.rs", "change": "modify", "added": 1, "removed": 1}], made)
        pending = await reviewer.list_pending()
        check(review["review_id"] in [item["review_id"] for item in pending["items"]], pending)
        claimed = await reviewer.claim_review(**review, **me)
        check(claimed["status"] == "claimed" and claimed["claim_generation"] == 1, claimed)
        again = await reviewer.claim_review(**review, **me)
        check(again == {**claimed, "claim_expires_at": again["claim_expires_at"]}, "a second claim changed something")
        kind, _ = await proposer.refused("claim_review", **review, reviewer_id="somebody-else")
        check(kind == "already_claimed", kind)
        await reviewer.post_message(**review, body="please run safely", role="reviewer", **me)
        thread = await proposer.get_messages(**review)
        check([m["body"] for m in thread["items"]] == ["please run safely"] and thread["status"] == "in_discussion", thread)
        await proposer.post_message(**review, body="show me how", role="proposer")
        sent = await reviewer.submit_patch(**review, diff=PATCH, role="reviewer", description="safely", **me)
        check(sent["review"]["status"] == "in_discussion", sent)
        patches = (await proposer.get_patch(**review))["patches"]
        check([p["diff"] for p in patches] == [DIFF, PATCH], patches)
        await proposer.post_message(**review, body="accepted", role="proposer")
        before = await proposer.get_review_status(**review)
        check(set(before) == {"review_id", "status", "version", "claim_generation", "updated_at"}, before)
        waiting = asyncio.create_task(proposer.get_review_status(**review, since=before["version"], wait_ms=20000))
        await asyncio.sleep(0.1)
        began = time.monotonic()
        await reviewer.submit_verdict(**review, decision="approved", reason="good", claim_generation=1, **me)
        after = await waiting
        check(after["status"] == "approved" and time.monotonic() - began < 2, after)
        closed = await proposer.close_review(**review)
        check(closed["status"] == "closed", closed)
        return review["review_id"], await proposer.get_proposal(**review), await proposer.get_messages(**review)


async def test_the_ten_steps_in_every_pairing_of_eras_then_a_restart(folder):
    kept = []
    with broker(folder) as running:
        for eras in [(LEGACY, LEGACY), (LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN)]:
            kept.append(await ten_steps(running.url, eras))
    with broker(folder) as running:
        async with agent(running.url, LEGACY) as later:
            for review_id, proposal, messages in kept:
                check(await later.get_proposal(review_id=review_id) == proposal, "the proposal changed")
                check(await later.get_messages(review_id=review_id) == messages, "the discussion changed")
    shown = look(folder, "show", kept[0][0][:13])
    check([m["body"] for m in shown["messages"]] == ["please run safely", "show me how", "accepted"], shown)
    coloured = subprocess.run(
        [harness.binary(), "--config", folder / "sentinel.toml", "--color", "always", "review", "show", kept[0][0]],
        capture_output=True, text=True, timeout=LIMIT_S,
    ).stdout
    check("\x1b[32m+    run();}" in coloured and "\x1b[31m-}" in coloured, coloured)
    check(len(look(folder, "list", "--status", "closed")["items"]) == 4)
    check(look(folder, "list", "--status", "pending")["total"] == 0, "an alias in a filter")


async def test_the_gateway_offers_the_tools_beside_its_backends(folder):
    with harness.gateway(folder, [], extra="\n[review]\nenabled = true\nextended_tools = true\n") as running:
        for url in (running.url, running.url + "/review"):
            async with Client(url, mode=MODERN) as client:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                check(len(tools) == 17, sorted(tools))
                check(tools["get_review_status"].annotations.read_only_hint is True)
                check(tools["submit_proposal"].meta["tags"] == ["proposal"], tools["submit_proposal"].meta)
        review_id, proposal, _ = await ten_steps(running.url, (LEGACY, LEGACY))
        async with agent(running.url, MODERN) as one:
            history = await one.get_review_timeline(review_id=review_id)
            events = [event["event"] for event in history["items"]]
            check(events[0] == "review_created" and events[-1] == "review_closed" and len(events) == 8, events)
            stats = await one.get_review_stats()
            check(stats["approval_rate_pct"] == 100.0 and stats["by_status"] == {"closed": 1}, stats)
            read = await one.client.read_resource(f"review://{review_id}")
            check(json.loads(read.contents[0].text)["proposal"]["review_id"] == review_id)
        async with Client(running.url, mode=LEGACY) as client:
            check((await client.list_resource_templates()).resource_templates[0].uri_template == "review://{id}")


async def test_whoever_follows_a_review_hears_of_each_change(folder):
    """B-49 and decisions 41: subscriptions of both eras, for changes of this process and of another on the same file."""
    with broker(folder) as running, broker(folder) as beside:
        heard = asyncio.Queue()

        async def hear(message):
            if getattr(message, "method", "") == "notifications/resources/updated":
                heard.put_nowait(message.params.uri)

        async with agent(running.url, LEGACY, message_handler=hear) as old, agent(running.url, MODERN) as new:
            templates = [await one.client.list_resource_templates() for one in (old, new)]
            check([t.resource_templates[0].uri_template for t in templates] == ["review://{id}"] * 2, templates)
            made = await new.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            other = await new.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            review, uri = {"review_id": made["review_id"]}, f"review://{made['review_id']}"
            await old.client.subscribe_resource(uri)
            missing = f"review://{uuid.uuid4()}"
            async with new.client.listen(resource_subscriptions=[uri, missing]) as following:
                check(following.honored.resource_subscriptions == [uri], following.honored)

                async def both_hear(what):
                    began = time.monotonic()
                    first = await asyncio.wait_for(heard.get(), 5)
                    second = await asyncio.wait_for(anext(following), 5)
                    check(first == second.uri == uri, what, first, second)
                    return time.monotonic() - began

                await new.claim_review(review_id=other["review_id"], reviewer_id="codex-1")
                await new.claim_review(**review, reviewer_id="codex-1")
                await both_hear("a claim")
                # Right after a look at the file, if that was it; the next one is half a second away. The machine may pause at one.
                told = []
                for body in ("here", "here, too", "and here"):
                    await new.post_message(**review, body=body, role="reviewer")
                    told.append(await both_hear("a message"))
                soon = min(told)
                async with agent(beside.url, LEGACY) as elsewhere:
                    await elsewhere.post_message(**review, body="from the other process", role="reviewer")
                later = await both_hear("a message of another process")
                # What was told is not told again by looking at the file.
                await asyncio.sleep(1.2)
                check(heard.empty(), "a change was told twice")
                read = json.loads((await new.client.read_resource(uri)).contents[0].text)
                check([m["body"] for m in read["messages"]] == ["here", "here, too", "and here", "from the other process"], read)
                check([p["diff"] for p in read["patches"]] == [DIFF], read)
                await old.client.unsubscribe_resource(uri)
                await new.submit_verdict(**review, decision="approved", reviewer_id="codex-1")
                check((await asyncio.wait_for(anext(following), 5)).uri == uri)
            check(heard.empty(), "heard after unsubscribing")
            try:
                await old.client.subscribe_resource(missing)
                check(False, "a review that is not there can be followed")
            except MCPError as error:
                check(error.error.code == -32002, error)
    check(soon < 0.4, "a change of this process took too long", soon)
    return f"told after {soon * 1000:.0f} ms, of another process after {later * 1000:.0f} ms"


async def test_calls_that_wait_leave_their_place_to_others(folder):
    """Decisions 18: of two places both are free while three calls wait, and each answer comes although the places are taken.

    The queue is for three calls that arrive at once; a wait that kept its place would make the calls after it time out there.
    """
    extra = "\n[review]\n[admission]\nmax_concurrent = 2\nqueue_size = 3\nqueue_timeout = 2\n"
    with broker(folder, extra=extra) as running:
        for era in (LEGACY, MODERN):
            async with agent(running.url, era) as one, agent(running.url, era) as two:
                made = await one.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
                review = {"review_id": made["review_id"]}
                waits = [
                    asyncio.create_task(one.get_review_status(**review, since=made["version"], wait_ms=20000)),
                    asyncio.create_task(two.get_review_status(**review, since="created", wait_ms=20000)),
                    asyncio.create_task(two.list_pending(project="nobody's", wait_ms=3000)),
                ]
                await asyncio.sleep(0.3)
                for _ in range(20):
                    check((await one.get_review_status(**review))["status"] == "created")
                await two.claim_review(**review, reviewer_id="codex-1")
                check([(await wait)["status"] for wait in waits[:2]] == ["claimed", "claimed"])
                check((await waits[2])["total"] == 0)


def admitted(running):
    """How many calls got a place so far."""
    _, page = running.get("/metrics")
    name = "sentinel_admission_admitted_total "
    return next(int(line.removeprefix(name)) for line in page.decode().splitlines() if line.startswith(name))


async def test_a_broker_that_stops_answers_whoever_waits(folder):
    """A restart takes no longer because somebody waits, and what was waited for is answered as if the time were over."""
    for era in (LEGACY, MODERN):
        with broker(folder) as running:
            async with agent(running.url, era) as one:
                made = await one.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1", project=era)
                before = admitted(running)
                waits = [
                    asyncio.create_task(one.get_review_status(review_id=made["review_id"], since=1, wait_ms=25000)),
                    asyncio.create_task(one.list_pending(project="nobody's", wait_ms=25000)),
                ]
                async with asyncio.timeout(LIMIT_S):
                    while admitted(running) < before + 2:
                        await asyncio.sleep(0.02)
                began = time.monotonic()
                running.child.terminate()
                status, pending = await asyncio.wait_for(asyncio.gather(*waits), 10)
                check(status["status"] == "created" and pending["total"] == 0, status, pending)
                took = time.monotonic() - began
                check(took < 3, "whoever waits was kept waiting", took)
            running.child.wait(10)


async def test_a_claim_expires_and_a_waiting_reviewer_gets_the_review(folder):
    with broker(folder, extra="\n[review]\nclaim_timeout = 5\n") as running:
        async with agent(running.url, LEGACY) as slow, agent(running.url, LEGACY) as quick:
            made = await slow.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            review = {"review_id": made["review_id"]}
            await slow.claim_review(**review)
            check((await quick.list_pending())["total"] == 0)
            free = await quick.list_pending(wait_ms=10000)
            check(free["total"] == 1, free)
            check((await quick.claim_review(**review))["claim_generation"] == 2)
            kind, _ = await slow.refused("submit_verdict", **review, decision="approved", claim_generation=1)
            check(kind == "stale_claim", kind)


async def test_with_postgresql_two_gateways_share_the_reviews(folder):
    """The ten steps on PostgreSQL, a restart, and a wait that another gateway ends."""
    with postgresql(folder) as url:
        environment = {**os.environ, "REVIEW_DATABASE": url}
        extra = '\n[postgres]\nurl_env = "REVIEW_DATABASE"\n[review]\n'
        with broker(folder, extra=extra, env=environment) as running:
            review_id, proposal, messages = await ten_steps(running.url, (LEGACY, MODERN))
        with broker(folder, extra=extra, env=environment) as running, broker(folder, extra=extra, env=environment) as beside:
            async with agent(running.url, LEGACY) as later, agent(beside.url, MODERN) as elsewhere:
                check(await later.get_proposal(review_id=review_id) == proposal, "the proposal changed")
                check(await later.get_messages(review_id=review_id) == messages, "the discussion changed")
                waiting = asyncio.create_task(elsewhere.list_pending(wait_ms=20000))
                await asyncio.sleep(0.3)
                began = time.monotonic()
                made = await later.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
                pending = await waiting
                took = time.monotonic() - began
                check([item["review_id"] for item in pending["items"]] == [made["review_id"]] and took < 5, pending, took)
        check(len(look(folder, "list", env=environment)["items"]) == 2)
        check("events, each as it was written" in look(folder, "verify", json_too=False, env=environment))
        try:
            look(folder, "backup", folder / "copy.db", json_too=False, env=environment)
            check(False, "a backup of PostgreSQL was written")
        except AssertionError as error:
            check("pg_dump" in str(error), error)
    check(not (folder / "data/sentinel.db").exists(), "reviews went to SQLite")
    return f"another gateway's wait ended after {took * 1000:.0f} ms"


async def test_twelve_tools_without_the_extended_ones(folder):
    with broker(folder) as running:
        async with Client(running.url, mode=LEGACY) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            check(len(tools) == 12, tools)
            check(client.server_info.name == "gsd-review-broker", client.server_info)


async def test_bad_arguments_get_clear_errors(folder):
    with broker(folder) as running:
        async with agent(running.url, MODERN) as one:
            made = await one.submit_proposal(intent="i", diff=DIFF, agent_type="a", phase="1")
            review = {"review_id": made["review_id"]}
            unknown = {"review_id": str(uuid.uuid4())}
            for wanted, tool, arguments in [
                ('/role: "boss" is not one of "proposer" or "reviewer"', "post_message", {**review, "body": "x", "role": "boss"}),
                ('/decision: "maybe" is not one of "approved" or "rejected"', "submit_verdict", {**review, "decision": "maybe"}),
                ("unknown status `open`", "list_reviews", {"status": "open"}),
                ("unknown status `open`", "get_review_status", {**review, "since": "open"}),
                ("must be a UUID", "get_proposal", {"review_id": "../../etc/passwd"}),
                ("there is no review", "get_proposal", unknown),
                ("there is no review", "claim_review", {**unknown, "reviewer_id": "a"}),
                ("reviewer_id is required", "claim_review", review),
                ("Cannot transition from 'created' to 'in_discussion'", "post_message", {**review, "body": "x", "role": "proposer"}),
                ("Cannot transition from 'created' to 'approved'", "submit_verdict", {**review, "decision": "approved"}),
                ("Cannot transition from 'created' to 'closed'", "close_review", review),
                ("not a unified diff", "submit_proposal", {"intent": "i", "diff": "words", "agent_type": "a", "phase": "1"}),
                ("leaves the tree", "submit_proposal", {"intent": "i", "diff": DIFF.replace("src/", "../"), "agent_type": "a", "phase": "1"}),
                ("must not be empty", "submit_proposal", {"intent": " ", "diff": DIFF, "agent_type": "a", "phase": "1"}),
                ('"phase" is a required property', "submit_proposal", {"intent": "i", "diff": DIFF, "agent_type": "a"}),
                ("'dif' was unexpected", "submit_proposal", {"intent": "i", "dif": DIFF, "agent_type": "a", "phase": "1"}),
                ("not both", "list_reviews", {"project": "a", "projects": ["b"]}),
                ("wait_ms is at most 25000", "get_review_status", {**review, "wait_ms": 25001}),
                ("a version is a number", "get_review_status", {**review, "since": "1"}),
                ("since must be a status, such as created, or a version", "get_review_status", {**review, "since": 2**64}),
                ('"plan_review", "code_change", "verification", "handoff"', "list_reviews", {"category": "plan"}),
                ("project must be one line", "submit_proposal", {"intent": "i", "diff": DIFF, "agent_type": "a", "phase": "1", "project": "a\nb"}),
                ("reviewer_id must be one line", "claim_review", {**review, "reviewer_id": "a\x1b[2J"}),
            ]:
                _, message = await one.refused(tool, **arguments)
                check(wanted in message, tool, message)
            check(await one.get_proposal(**review) == await one.get_proposal(**review))
            check((await one.get_review_status(**review, since=1.0, wait_ms=1e1))["version"] == 1, "whole numbers are integers")
            check((await one.get_review_status(**review))["version"] == 1, "a refusal changed the review")
            check((await one.list_reviews(status="pending"))["total"] == 1, "an alias in a filter")


async def test_looking_changes_nothing(folder):
    """A file that is somebody else's gets no tables of ours, and a text of an agent does not steer the terminal."""
    with broker(folder) as running:
        async with agent(running.url, MODERN) as one:
            intent = "clear \x1b[2J\n    status  approved \u202e"
            made = await one.submit_proposal(intent=intent, diff=DIFF, agent_type="a", phase="1")
        shown = look(folder, "show", made["review_id"], json_too=False)
        check("\x1b" not in shown and "\u202e" not in shown and "\n      status  approved" in shown, shown)
        foreign = folder / "foreign.db"
        with contextlib.closing(sqlite3.connect(foreign)) as db, db:
            db.execute("CREATE TABLE theirs (x)")
        for command in (["list"], ["verify"], ["backup", folder / "copy.db"]):
            try:
                look(folder, *command, "--db", foreign, json_too=False)
                check(False, command, "somebody else's file was taken for ours")
            except AssertionError as error:
                check("holds no reviews" in str(error), error)
        with contextlib.closing(sqlite3.connect(foreign)) as db:
            check(db.execute("SELECT name FROM sqlite_schema").fetchall() == [("theirs",)])


async def test_a_diff_of_two_megabytes_comes_back_byte_for_byte(folder):
    lines = [f"+line {n} äöü€ {'x' * (n % 60)}" for n in range(40000)]
    diff = f"--- /dev/null\n+++ b/big.txt\n@@ -0,0 +1,{len(lines)} @@\n" + "\n".join(lines) + "\n"
    check(len(diff.encode()) > 2_000_000, len(diff.encode()))
    with broker(folder) as running:
        for era in (LEGACY, MODERN):
            async with agent(running.url, era) as one:
                made = await one.submit_proposal(intent="big", diff=diff, agent_type="a", phase="1")
                check(made["affected_files"][0]["added"] == len(lines), made["affected_files"])
                parts, offset = [], 0
                while offset is not None:
                    page = (await one.get_proposal(review_id=made["review_id"], offset=offset))["patch"]
                    check(len(page["diff"].encode()) <= 262144, "a page is too large")
                    parts.append(page["diff"])
                    offset = page.get("next_offset")
                check("".join(parts) == diff and len(parts) > 7, len(parts))
                odd, offset = [], 0
                while offset is not None and len(odd) < 50:
                    arguments = {"review_id": made["review_id"], "patch_id": made["patch_id"], "offset": offset, "limit": 77_777}
                    page = (await one.get_patch(**arguments))["patches"][0]
                    odd.append(page["diff"])
                    offset = page.get("next_offset")
                check("".join(odd) == diff, "pages of another size")
