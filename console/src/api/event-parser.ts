// The format of server-sent events.

export interface ServerEvent {
  event: string;
  data: string;
}

/** An event larger than this is no event of the gateway; a connection that sends one is given up. */
export const EVENT_CHARS_MAX = 32 << 20;

/** Splits text into events. Lines end with LF, CR LF or CR; comments and unknown fields are skipped. */
export class EventParser {
  /** That of the last event that had one: where the stream can be taken up again. */
  lastId: string | undefined;
  /** How long the stream wants to be left alone before the next attempt. */
  retryMs: number | undefined;
  private rest = "";
  private event = "";
  private data: string[] = [];
  private size = 0;
  private endedWithCr = false;

  push(chunk: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    // CR LF may be cut between two chunks.
    let text = this.endedWithCr && chunk.startsWith("\n") ? chunk.slice(1) : chunk;
    if (chunk !== "") this.endedWithCr = chunk.endsWith("\r");
    text = this.rest + text;
    let start = 0;
    const end = /\r\n|\n|\r/g;
    // What was looked at before has no end of a line.
    end.lastIndex = this.rest.length;
    for (let found = end.exec(text); found !== null; found = end.exec(text)) {
      this.line(text.slice(start, found.index), events);
      start = end.lastIndex;
    }
    this.rest = text.slice(start);
    if (this.rest.length + this.size > EVENT_CHARS_MAX) throw new Error("an event of the stream is too large");
    return events;
  }

  private line(line: string, events: ServerEvent[]): void {
    if (line === "") {
      if (this.data.length > 0) events.push({ event: this.event || "message", data: this.data.join("\n") });
      this.event = "";
      this.data = [];
      this.size = 0;
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    if (field === "id" && !value.includes("\0")) this.lastId = value;
    if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
    if (field === "data") {
      this.data.push(value);
      this.size += value.length;
      if (this.size > EVENT_CHARS_MAX) throw new Error("an event of the stream is too large");
    }
  }
}
