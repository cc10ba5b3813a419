"""Python SDK callers for the tests: one connection per transport and era, kept open for the whole run.

`sentinel stdio` starts every backend of its own, so a connection per test would spend the run on start-ups.
"""

import asyncio
import threading
import time

from mcp import Client, StdioServerParameters
from world import WORLD

MODERN, LEGACY = "2026-07-28", "2025-11-25"
LIMIT_S = 30


class Caller:
    """A `Client` that lives on a loop in its own thread; `caller.call_tool(...)` waits for the answer."""

    def __init__(self, server, mode, **more):
        self.server, self.mode, self.more, self.joined = server, mode, more, False
        self.loop = asyncio.new_event_loop()
        self.ready, self.problem = threading.Event(), None
        self.thread = threading.Thread(target=self.loop.run_until_complete, args=(self.live(),), daemon=True)
        self.thread.start()
        assert self.ready.wait(LIMIT_S), "the client did not connect"
        if self.problem:
            raise self.problem

    async def live(self):
        self.ending = asyncio.Event()
        try:
            async with Client(self.server, mode=self.mode, read_timeout_seconds=LIMIT_S, **self.more) as self.client:
                self.version = self.client.protocol_version
                self.capabilities = self.client.server_capabilities
                self.ready.set()
                await self.ending.wait()
        except BaseException as problem:  # handed to the test, which raises it
            self.problem = problem
            self.ready.set()

    def __getattr__(self, name):
        def call(*arguments, **more):
            method = getattr(self.client, name)
            return asyncio.run_coroutine_threadsafe(method(*arguments, **more), self.loop).result(LIMIT_S)

        return call

    def every(self, method, field):
        """All items of a list, page by page."""
        items, cursor = [], None
        for _ in range(100):
            page = getattr(self, method)(cursor=cursor) if cursor else getattr(self, method)()
            items += getattr(page, field)
            cursor = page.next_cursor
            if cursor is None:
                return items
        raise AssertionError(f"{method} never ends")

    def tools(self):
        return {tool.name: tool for tool in self.every("list_tools", "tools")}

    def close(self):
        self.loop.call_soon_threadsafe(self.ending.set)
        self.thread.join(LIMIT_S)


def stdio():
    return StdioServerParameters(command=WORLD["binary"], args=["stdio", "--config", WORLD["config"]])


def endpoint(backend=None):
    return WORLD["url"] + (f"/{backend}" if backend else "")


def eventually(state, limit_s=LIMIT_S):
    """Waits for a state: backends may come after the first answer, and are announced then (G-44)."""
    end = time.monotonic() + limit_s
    while not (found := state()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


WAYS = {
    "http-legacy": lambda: Caller(endpoint(), "legacy"),
    "http-modern": lambda: Caller(endpoint(), "auto"),
    "stdio-legacy": lambda: Caller(stdio(), "legacy"),
    "stdio-modern": lambda: Caller(stdio(), "auto"),
}


def text(result):
    return "\n".join(item.text for item in result.content if item.type == "text")
