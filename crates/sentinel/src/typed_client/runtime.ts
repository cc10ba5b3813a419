// --- the client: the same in every file that this version writes ---

/** A value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [member: string]: Json };

/** A part of a result for models or people. */
export type ContentBlock =
  | { type: "text"; text: string }
  | { type: "image" | "audio"; data: string; mimeType: string }
  | { type: "resource"; resource: { uri: string; mimeType?: string; text?: string; blob?: string } }
  | { type: "resource_link"; uri: string; name: string; description?: string; mimeType?: string };

/** The result of an operation without an output schema: its content, or structured content of any form. */
export type Unstructured = { content: ContentBlock[] } | Json;

/** The messages of a prompt. */
export type PromptResult = {
  description?: string;
  messages: { role: "user" | "assistant"; content: ContentBlock }[];
};

/** A resource. One that has several parts is JSON with the member `contents`. */
export type ResourceContent = {
  /** Its media type, with parameters. */
  type: string;
  bytes: Uint8Array;
  /** The bytes as UTF-8. */
  text(): string;
};

export type OperationName = keyof Operations & string;
export type PromptName = keyof Prompts & string;
export type Input<N extends OperationName> = Operations[N] extends { input: infer I } ? I : never;
export type Output<N extends OperationName> = Operations[N] extends { output: infer O } ? O : never;

/** `input` may be left out where nothing in it is required. */
type Rest<I> = {} extends I ? [input?: I, options?: CallOptions] : [input: I, options?: CallOptions];

export type ClientOptions = {
  /** Where the gateway is, such as `https://gateway.example.com`. */
  baseUrl?: string;
  /** Bearer token, or what gives one for each request. */
  token?: string | (() => string | Promise<string>);
  /** Further headers, or what gives them for each request. */
  headers?: Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>);
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
  /** How long a call may take, and how long a stream may be silent; 0 is for ever. Default: 120,000. */
  timeoutMs?: number;
  /** Ends every call of this client. */
  signal?: AbortSignal;
};

export type CallOptions = {
  signal?: AbortSignal;
  timeoutMs?: number;
  /** Calls with the same key and input run once; later ones get the first one's answer. */
  idempotencyKey?: string;
  /** The token of a `confirmation_required` problem. */
  confirmationToken?: string;
  headers?: Record<string, string>;
};

/** What failed here, before or after the gateway: nothing answered, or what answered is not the gateway. */
type LocalCode = "aborted" | "connection_failed" | "timed_out" | "unreadable_answer" | "unrecognized";

/** What went wrong. `unrecognized` is a code of a later version, or an answer of something in between. */
export type ProblemCode = (typeof PROBLEM_CODES)[number] | LocalCode;

type Members = {
  /** A page that explains it. */
  type: string;
  title: string;
  /** The HTTP status; 0 if there was no answer. */
  status: number;
  detail: string;
  /** Names this occurrence in the gateway's log. */
  instance?: string;
  hint?: string;
  /** Another attempt can succeed: later, with the request corrected, or with what the answer asks for. */
  retryable: boolean;
  retry_after_ms?: number;
};

/** One thing that is wrong with the input; `pointer` is a JSON Pointer into it. */
export type Issue = { pointer: string; message: string; keyword?: string };

export type InvalidInput = Members & { code: "invalid_arguments" | "invalid_parameter"; issues: Issue[] };

/** The operation ran and says that it failed. */
export type ToolFailed = Members & {
  code: "tool_error";
  content: ContentBlock[];
  structuredContent?: Json;
};

/** Call again with the same input and this token. */
export type ConfirmationNeeded = Members & {
  code: "confirmation_required" | "confirmation_invalid";
  confirmationToken?: string;
};

/** What an operation asks: `elicitation/create`, `sampling/createMessage` or `roots/list`. */
export type InputRequest = { method: string; params?: { [member: string]: Json } };

export type InputAnswer =
  | { action: "accept"; content?: { [member: string]: Json } }
  | { action: "decline" | "cancel" }
  | { role: "assistant" | "user"; content: ContentBlock; model: string; stopReason?: string }
  | { roots: { uri: string; name?: string }[] };

/** The operation asks something. Its call goes on with an answer to each question. */
export type InputRequired<O> = Members & {
  code: "input_required";
  inputRequests: Record<string, InputRequest>;
  /** Continues the call from elsewhere, with `client.resume`. */
  requestState: string;
  continue(answers: Record<string, InputAnswer>, options?: CallOptions): Promise<Outcome<O>>;
};

export type OtherProblem = Members & {
  code: Exclude<ProblemCode, (InvalidInput | ToolFailed | ConfirmationNeeded | InputRequired<never>)["code"]>;
};

export type Problem<O = unknown> =
  | InvalidInput
  | ToolFailed
  | ConfirmationNeeded
  | InputRequired<O>
  | OtherProblem;

export type Outcome<O> = { ok: true; value: O } | { ok: false; error: Problem<O> };

/** What a call says while it runs, and at last its result. */
export type StreamRecord<O> =
  | { type: "progress"; progress: number; total?: number; message?: string }
  | { type: "log"; level: string; logger?: string; data: Json }
  | { type: "result"; result: O };

/** Thrown by `call`, `stream`, `prompt` and `read`. */
export class SentinelError extends Error {
  override readonly name = "SentinelError";
  readonly problem: Problem;

  constructor(problem: Problem, options?: { cause?: unknown }) {
    super(`${problem.code}: ${problem.detail}`, options);
    this.problem = problem;
  }
}

export interface Client {
  /** Calls an operation; throws a SentinelError if there is no result. */
  call<N extends OperationName>(operation: N, ...rest: Rest<Input<N>>): Promise<Output<N>>;
  /** Calls an operation; never throws. */
  safe<N extends OperationName>(operation: N, ...rest: Rest<Input<N>>): Promise<Outcome<Output<N>>>;
  /** Calls an operation and reads what it says on the way; leaving the loop cancels the call. */
  stream<N extends OperationName>(
    operation: N,
    ...rest: Rest<Input<N>>
  ): AsyncGenerator<StreamRecord<Output<N>>, void, undefined>;
  /** Continues a call that asked something, with the input it was made with. */
  resume<N extends OperationName>(
    operation: N,
    input: Input<N>,
    requestState: string,
    answers: Record<string, InputAnswer>,
    options?: CallOptions,
  ): Promise<Outcome<Output<N>>>;
  prompt<N extends PromptName>(name: N, ...rest: Rest<Prompts[N]>): Promise<PromptResult>;
  /** Reads a resource by its URI. */
  read(uri: string, options?: CallOptions): Promise<ResourceContent>;
}

/** The text of a result: that of its text blocks, or all of it as JSON. */
export function textOf(result: unknown): string {
  const content = isObject(result) ? result["content"] : undefined;
  if (!Array.isArray(content)) return JSON.stringify(result);
  return content.flatMap((block) => (isObject(block) && typeof block["text"] === "string" ? [block["text"]] : [])).join("\n");
}

export function createClient(options: ClientOptions = {}): Client {
  const base = (options.baseUrl ?? BASE_URL)?.replace(/\/+$/, "");
  if (base === undefined) throw new TypeError("createClient: baseUrl is missing");
  const request = (path: string, more: CallOptions, accept: string, body?: unknown) =>
    Exchange.begin(options, `${base}/api/${path}`, more, accept, body);

  async function post<O>(path: string, body: unknown, more: CallOptions, asked?: Asked<O>): Promise<O> {
    const exchange = await request(path, more, "application/json", body);
    return exchange.finish(async (response) => {
      if (!response.ok) throw new SentinelError(await problemOf(response, asked));
      return (await response.json()) as O;
    });
  }

  /** The continuation of a call, for when it asks something. */
  function asking<O>(operation: string, input: unknown): Asked<O> {
    return (state, answers, more = {}) => {
      const body = { arguments: input, requestState: state, inputResponses: answers };
      const path = `${encodeURIComponent(operation)}/continue`;
      return outcome(post<O>(path, body, more, asking(operation, input)));
    };
  }

  async function call<O>(operation: string, input: unknown = {}, more: CallOptions = {}): Promise<O> {
    return post(encodeURIComponent(operation), input, more, asking<O>(operation, input));
  }

  async function* stream<O>(
    operation: string,
    input: unknown = {},
    more: CallOptions = {},
  ): AsyncGenerator<StreamRecord<O>, void, undefined> {
    const exchange = await request(encodeURIComponent(operation), more, "text/event-stream", input);
    const asked = asking<O>(operation, input);
    try {
      if (!exchange.response.ok) throw new SentinelError(await problemOf(exchange.response, asked));
      for await (const data of exchange.events()) {
        const record: unknown = JSON.parse(data);
        if (!isObject(record)) continue;
        if (record["type"] === "error") throw new SentinelError(problemFrom(record["error"], 0, asked));
        if (record["type"] === "progress" || record["type"] === "log" || record["type"] === "result") {
          yield record as StreamRecord<O>;
        }
        if (record["type"] === "result") return;
      }
      throw new SentinelError(local("unreadable_answer", "the stream ended without a result"));
    } catch (error) {
      throw exchange.explained(error);
    } finally {
      exchange.end();
    }
  }

  const client = {
    call,
    safe: (operation: string, input?: unknown, more?: CallOptions) => outcome(call(operation, input, more)),
    stream,
    resume: (
      operation: string,
      input: unknown,
      state: string,
      answers: Record<string, InputAnswer>,
      more?: CallOptions,
    ) => asking(operation, input)(state, answers, more),
    prompt: (name: string, input: unknown = {}, more: CallOptions = {}) =>
      post<PromptResult>(`prompts/${encodeURIComponent(name)}`, input, more),
    read: async (uri: string, more: CallOptions = {}): Promise<ResourceContent> => {
      const exchange = await request(`resources/${encodeURIComponent(uri)}`, more, "*/*");
      return exchange.finish(async (response) => {
        if (!response.ok) throw new SentinelError(await problemOf(response));
        const bytes = new Uint8Array(await response.arrayBuffer());
        const type = response.headers.get("content-type") ?? "application/octet-stream";
        return { type, bytes, text: () => new TextDecoder().decode(bytes) };
      });
    },
  };
  // The names and types of operations are of the interface; underneath there are texts and JSON.
  return client as Client;
}

/** The result of a promise of this client, without throwing: `outcome(client.read(uri))`. */
export async function outcome<O>(promise: Promise<O>): Promise<Outcome<O>> {
  try {
    return { ok: true, value: await promise };
  } catch (error) {
    if (error instanceof SentinelError) return { ok: false, error: error.problem as Problem<O> };
    return { ok: false, error: local("connection_failed", String(error)) };
  }
}

type Asked<O> = (
  state: string,
  answers: Record<string, InputAnswer>,
  options?: CallOptions,
) => Promise<Outcome<O>>;

const TIMEOUT_MS = 120_000;

/** One request and its answer, with what ends it: a signal, or time. */
class Exchange {
  readonly #controller = new AbortController();
  readonly #timeoutMs: number;
  readonly #signals: AbortSignal[];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #cause: "aborted" | "timed_out" | undefined;
  #response: Response | undefined;

  private constructor(options: ClientOptions, more: CallOptions) {
    this.#timeoutMs = more.timeoutMs ?? options.timeoutMs ?? TIMEOUT_MS;
    this.#signals = [options.signal, more.signal].filter((signal) => signal !== undefined);
    for (const signal of this.#signals) {
      if (signal.aborted) this.#abort();
      signal.addEventListener("abort", this.#abort);
    }
    this.#wait();
  }

  static async begin(
    options: ClientOptions,
    url: string,
    more: CallOptions,
    accept: string,
    body?: unknown,
  ): Promise<Exchange> {
    const exchange = new Exchange(options, more);
    try {
      const headers = new Headers(typeof options.headers === "function" ? await options.headers() : options.headers);
      const token = typeof options.token === "function" ? await options.token() : options.token;
      if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
      headers.set("accept", accept);
      if (more.idempotencyKey !== undefined) headers.set("idempotency-key", more.idempotencyKey);
      if (more.confirmationToken !== undefined) headers.set("x-confirmation-token", more.confirmationToken);
      for (const [name, value] of Object.entries(more.headers ?? {})) headers.set(name, value);
      const request: RequestInit = { method: "GET", headers, signal: exchange.#controller.signal };
      if (body !== undefined) {
        headers.set("content-type", "application/json");
        request.method = "POST";
        request.body = JSON.stringify(body);
      }
      exchange.#response = await (options.fetch ?? fetch)(url, request);
      return exchange;
    } catch (error) {
      exchange.end();
      throw exchange.explained(error);
    }
  }

  get response(): Response {
    if (this.#response === undefined) throw new TypeError("there is no answer yet");
    return this.#response;
  }

  /** Reads the answer as a whole. */
  async finish<T>(read: (response: Response) => Promise<T>): Promise<T> {
    try {
      return await read(this.response);
    } catch (error) {
      throw this.explained(error);
    } finally {
      this.end();
    }
  }

  /** The data of each event of the answer, as they come. */
  async *events(): AsyncGenerator<string, void, undefined> {
    const reader = this.response.body?.getReader();
    if (reader === undefined) return;
    const events = new EventReader();
    for (;;) {
      const { done, value } = await reader.read();
      this.#wait();
      yield* done ? events.end() : events.push(value);
      if (done) return;
    }
  }

  /** What is known of an error. */
  explained(error: unknown): SentinelError {
    if (error instanceof SentinelError) return error;
    const cause = { cause: error };
    if (this.#cause === "aborted") return new SentinelError(local("aborted", "the call was aborted"), cause);
    if (this.#cause === "timed_out") {
      return new SentinelError(local("timed_out", `nothing came for ${this.#timeoutMs} ms`), cause);
    }
    const code = error instanceof SyntaxError || error instanceof RangeError ? "unreadable_answer" : "connection_failed";
    return new SentinelError(local(code, String(error)), cause);
  }

  /** Lets go of everything; an answer that is still coming is cancelled. */
  end(): void {
    clearTimeout(this.#timer);
    for (const signal of this.#signals) signal.removeEventListener("abort", this.#abort);
    this.#controller.abort();
  }

  #wait(): void {
    clearTimeout(this.#timer);
    if (this.#timeoutMs <= 0) return;
    this.#timer = setTimeout(() => {
      this.#cause ??= "timed_out";
      this.#controller.abort();
    }, this.#timeoutMs);
  }

  readonly #abort = (): void => {
    this.#cause ??= "aborted";
    this.#controller.abort();
  };
}

/** An event that is larger than any answer of the gateway. */
const EVENT_CHARS_MAX = 128 * 1024 * 1024;

/** Reads server-sent events piece by piece: the data of each. */
export class EventReader {
  readonly #decoder = new TextDecoder();
  /** What came since the last line end, and how much of it was looked at. */
  #text = "";
  #seen = 0;
  #data: string[] = [];
  #size = 0;

  push(bytes: Uint8Array): string[] {
    this.#text += this.#decoder.decode(bytes, { stream: true });
    return this.#read(false);
  }

  /** What was not ended by an empty line is an event, too. */
  end(): string[] {
    this.#text += this.#decoder.decode();
    const found = this.#read(true);
    if (this.#text !== "") this.#line(this.#text, found);
    this.#text = "";
    this.#line("", found);
    return found;
  }

  #read(isEnd: boolean): string[] {
    const found: string[] = [];
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = this.#seen;
    let at = 0;
    for (let match = ends.exec(this.#text); match !== null; match = ends.exec(this.#text)) {
      // A return at the end may be the first half of a line end.
      if (!isEnd && match[0] === "\r" && ends.lastIndex === this.#text.length) break;
      this.#line(this.#text.slice(at, match.index), found);
      at = ends.lastIndex;
    }
    this.#text = this.#text.slice(at);
    this.#seen = this.#text.endsWith("\r") ? this.#text.length - 1 : this.#text.length;
    if (this.#size + this.#text.length > EVENT_CHARS_MAX) throw new RangeError("an event is too large");
    return found;
  }

  #line(line: string, found: string[]): void {
    if (line === "") {
      if (this.#data.length > 0) found.push(this.#data.join("\n"));
      this.#data = [];
      this.#size = 0;
    } else if (line === "data" || line.startsWith("data:")) {
      this.#data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
      this.#size += line.length;
    }
    // Comments keep the connection alive; types and ids are in the data.
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A problem that was found here. */
function local(code: LocalCode, detail: string): OtherProblem {
  const retryable = code === "connection_failed" || code === "timed_out";
  return { code, type: "about:blank", title: code.replaceAll("_", " "), status: 0, detail, retryable };
}

/** The problem in an answer that is no success. */
async function problemOf<O>(response: Response, asked?: Asked<O>): Promise<Problem<O>> {
  const text = await response.text();
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    document = undefined;
  }
  return problemFrom(document, response.status, asked);
}

function problemFrom<O>(document: unknown, status: number, asked?: Asked<O>): Problem<O> {
  const code = isObject(document) ? document["code"] : undefined;
  if (!isObject(document) || typeof code !== "string") {
    const what = `the answer has status ${status} and is no problem document: it may not come from the gateway`;
    return { ...local("unrecognized", what), status };
  }
  const isKnown = (PROBLEM_CODES as readonly string[]).includes(code);
  // The gateway makes problem documents by one table; members that a kind always has are filled in for older ones.
  const problem = {
    type: "about:blank",
    title: code,
    detail: code,
    retryable: false,
    ...(code === "tool_error" ? { content: [] } : {}),
    ...(code === "invalid_arguments" || code === "invalid_parameter" ? { issues: [] } : {}),
    status,
    ...document,
    code: isKnown ? code : "unrecognized",
  } as unknown as Problem<O>;
  if (problem.code === "input_required") {
    const state = problem.requestState;
    problem.continue = (answers, options) =>
      asked === undefined
        ? Promise.resolve({ ok: false, error: local("unreadable_answer", "this request cannot be continued") })
        : asked(state, answers, options);
  }
  return problem;
}
