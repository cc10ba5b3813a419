import assert from "node:assert/strict";
import { test } from "node:test";
import { EventParser } from "./events";

function parse(...chunks: string[]) {
  const parser = new EventParser();
  return chunks.flatMap((chunk) => parser.push(chunk));
}

test("every way to cut a stream gives the same events", () => {
  const stream = ': hello\r\nid: 1-0\r\nretry: 1000\r\ndata: \r\n\r\nevent: progress\rdata: {"a":\rdata: 1}\r\rid: 1-1\ndata:x\n\n';
  const whole = parse(stream);
  assert.deepEqual(whole, [
    { event: "message", data: "", id: "1-0" },
    { event: "progress", data: '{"a":\n1}', id: "1-0" },
    { event: "message", data: "x", id: "1-1" },
  ]);
  for (let at = 1; at < stream.length; at += 1) {
    assert.deepEqual(parse(stream.slice(0, at), stream.slice(at)), whole, `cut at ${at}`);
  }
  assert.deepEqual(parse(...stream), whole);
});

test("a stream says how long to wait before the next attempt, and nonsense says nothing", () => {
  const parser = new EventParser();
  parser.push("retry: soon\nretry: 250\n");
  assert.equal(parser.retryMs, 250);
});

test("what is not ended is no event", () => {
  assert.deepEqual(parse("data: 1\n"), []);
});
