"""Callers and servers that nobody here wrote, with the gateway between them.

One gateway with eleven backends in one catalog: six real servers and one fixture over stdio, four fixtures over HTTP; and
smaller gateways beside it. `WORLD` tells the tests of both languages where everything is.
"""

import contextlib
import os
import subprocess

import harness

# Filled when the session starts: see conftest.py and `world`.
WORLD = {}


def sources(folder):
    """A repository and a folder with known contents for the git and filesystem servers."""
    repository, files = folder / "repository", folder / "files"
    files.mkdir(parents=True)
    (files / "note.txt").write_text("written by the test\n")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    subprocess.run(["git", "init", "-q", "-b", "trunk", repository], check=True, env=environment)
    (repository / "untracked.txt").write_text("new\n")
    return repository, files


def servers(repository, files, memory):
    """The real servers, and one that wants many calls at once, as backends over stdio."""

    def node(name, package, *arguments, **more):
        script = harness.MODULES / f"@modelcontextprotocol/server-{package}/dist/index.js"
        return stdio(name, harness.NODE, script, *arguments, **more)

    return [
        node("everything", "everything", "stdio"),
        node("filesystem", "filesystem", files),
        node("memory", "memory", env={"MEMORY_FILE_PATH": str(memory)}),
        node("thinking", "sequential-thinking"),
        stdio("time", harness.PYTHON.parent / "mcp-server-time", "--local-timezone", "UTC"),
        stdio("git", harness.PYTHON.parent / "mcp-server-git", "--repository", repository),
        stdio("meeting", harness.PYTHON, harness.TESTS / "fixtures/meeting_server.py"),
        stdio("asking", harness.PYTHON, harness.TESTS / "fixtures/asking_server.py", isolation="caller"),
    ]


def stdio(name, command, *arguments, **more):
    return {"name": name, "type": "stdio", "command": str(command), "args": [str(a) for a in arguments], **more}


@contextlib.contextmanager
def serving_everything(transport, folder):
    """server-everything over HTTP, by one of its transports; yields its origin."""
    script = harness.MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
    port = harness.free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stdin": subprocess.DEVNULL, "env": {**os.environ, "PORT": str(port)}}
    with harness.process([harness.NODE, script, transport], f"everything-{transport}", folder, **quiet) as child:
        ready = ("is running", "listening on port")
        harness.wait(lambda: any(word in harness.tail(child.log_path) for word in ready), "server-everything", child)
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def oldest(folder):
    """Servers of two SDKs by HTTP+SSE of 2024-11-05, behind a gateway of their own; yields its URL."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        everything = stack.enter_context(serving_everything("sse", folder))
        python = stack.enter_context(harness.fixture("conformance_server.py", folder, "--sse"))
        backends = [
            {"name": "typescript", "type": "http", "url": f"{everything}/sse"},
            {"name": "python", "type": "http", "url": python},
        ]
        yield stack.enter_context(harness.gateway(folder, backends)).url


@contextlib.contextmanager
def matrix(folder):
    """One server of each era behind a gateway, and a configuration for each alone over stdio; and a real one with tasks."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        told, backends = {}, []
        for name, era in (("l", "legacy"), ("m", "modern")):
            url = stack.enter_context(harness.fixture("conformance_server.py", folder, "--era", era))
            backends.append({"name": name, "type": "http", "url": url})
            alone = folder / name
            alone.mkdir()
            told[name] = str(harness.write_config(alone, backends[-1:], listen="off"))
        script = harness.MODULES / "@modelcontextprotocol/server-everything/dist/index.js"
        everything = stack.enter_context(serving_everything("streamableHttp", folder))
        backends.append({"name": "http-everything", "type": "http", "url": f"{everything}/mcp"})
        backends.append(stdio("stdio-everything", harness.NODE, script, "stdio", isolation="caller"))
        told["url"] = stack.enter_context(harness.gateway(folder, backends)).url
        yield told


@contextlib.contextmanager
def reviewing(folder):
    """A gateway with nothing but the review tools, which have tags; yields its URL."""
    folder.mkdir()
    with harness.gateway(folder, [], extra="[review]") as gateway:
        yield gateway.url


@contextlib.contextmanager
def world(folder):
    """Everything running; yields what the tests are told.

    Collisions are decided by the order here: `fixture` keeps the bare names, the others get theirs in front.
    """
    repository, files = sources(folder)
    with contextlib.ExitStack() as stack:
        fixtures = {
            "fixture": ("conformance_server.py",),
            "old": ("conformance_ts1.mjs", "--page", "3"),
            "new": ("conformance_ts2.mjs",),
            "paged": ("conformance_server.py", "--era", "modern", "--page", "3"),
        }
        direct = {
            name: stack.enter_context(harness.fixture(script, folder, *options))
            for name, (script, *options) in fixtures.items()
        }
        web = [{"name": name, "type": "http", "url": url} for name, url in direct.items()]
        piped = folder / "stdio"
        piped.mkdir()
        config = harness.write_config(
            piped, [*servers(repository, files, piped / "memory.jsonl"), *web], listen="off"
        )
        backends = [*servers(repository, files, folder / "memory.jsonl"), *web]
        gateway = stack.enter_context(harness.gateway(folder, backends))
        yield {
            "url": gateway.url,
            "matrix": stack.enter_context(matrix(folder / "matrix")),
            "oldest": stack.enter_context(oldest(folder / "oldest")),
            "reviewing": stack.enter_context(reviewing(folder / "reviewing")),
            "direct": direct,
            "binary": str(harness.binary()),
            "config": str(config),
            "repository": str(repository),
            "files": str(files),
        }
