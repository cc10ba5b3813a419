import assert from "node:assert/strict";
import { test } from "node:test";
import { EVENT_CHARS_MAX, EventParser } from "../src/api/event-parser";

test("events read the same however their bytes are cut", () => {
  const text = ": comment\r\nevent: record\r\ndata: {\"a\":1}\r\ndata:two\r\n\r\ndata: x\n\nevent: empty\n\nid: 7\rdata: y\r\r";
  const whole = new EventParser().push(text);
  assert.deepEqual(whole, [
    { event: "record", data: '{"a":1}\ntwo' },
    { event: "message", data: "x" },
    { event: "message", data: "y" },
  ]);
  for (let first = 0; first <= text.length; first += 1) {
    for (let second = first; second <= text.length; second += 1) {
      const parser = new EventParser();
      const parts = [text.slice(0, first), text.slice(first, second), text.slice(second)];
      assert.deepEqual(parts.flatMap((part) => parser.push(part)), whole, `cut at ${first} and ${second}`);
    }
  }
});

test("an event without an end is given up at its bound", () => {
  const parser = new EventParser();
  const chunk = `data: ${"x".repeat(1 << 20)}`;
  assert.throws(() => {
    for (let sent = 0; sent <= EVENT_CHARS_MAX + (1 << 20); sent += chunk.length) parser.push(chunk);
  }, /too large/);
  const lines = new EventParser();
  assert.throws(() => {
    for (let sent = 0; sent <= EVENT_CHARS_MAX + (1 << 20); sent += chunk.length) lines.push(`${chunk}\n`);
  }, /too large/);
});

test("a stream says where it can be taken up again, and how long it wants to be left alone", () => {
  const parser = new EventParser();
  parser.push("id: 1-0\nretry: 1000\ndata: \n\nid: bad\0\nretry: soon\n");
  assert.deepEqual([parser.lastId, parser.retryMs], ["1-0", 1000]);
});
