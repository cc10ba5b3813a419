from __future__ import annotations

import codecs
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar, Unpack, get_args
from urllib.parse import quote

import httpx

# --- types of the operations ---
# --- the client: the same in every file that this version writes ---

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"


class ContentBlock(TypedDict):
    """A part of a result for models or people: `type` says which members it has."""

    type: str
    text: NotRequired[str]
    data: NotRequired[str]
    """In base64."""
    mimeType: NotRequired[str]
    resource: NotRequired[dict[str, Any]]
    uri: NotRequired[str]
    name: NotRequired[str]


class Content(TypedDict):
    content: list[ContentBlock]


Unstructured: TypeAlias = "Content | Json"
"""The result of an operation without an output schema: its content, or structured content of any form."""


class PromptMessage(TypedDict):
    role: Literal["user", "assistant"]
    content: ContentBlock


class PromptResult(TypedDict):
    description: NotRequired[str]
    messages: list[PromptMessage]


@dataclass(frozen=True)
class ResourceContent:
    """A resource. One that has several parts is JSON with the member `contents`."""

    type: str
    """Its media type, with parameters."""
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")


LocalCode: TypeAlias = Literal["connection_failed", "timed_out", "unreadable_answer", "unrecognized"]
"""What failed here, before or after the gateway. `unrecognized` is a code of a later version, or an answer of something in between."""

ProblemCode: TypeAlias = KnownCode | LocalCode


@dataclass(frozen=True)
class Problem:
    """What went wrong."""

    code: ProblemCode
    title: str
    status: int
    """The HTTP status; 0 if there was no answer."""
    detail: str
    type: str = "about:blank"
    """A page that explains it."""
    instance: str | None = None
    """Names this occurrence in the gateway's log."""
    hint: str | None = None
    retryable: bool = False
    """Another attempt can succeed: later, with the request corrected, or with what the answer asks for."""
    retry_after_ms: int | None = None
    members: dict[str, Any] = field(default_factory=dict, repr=False)
    """The whole document."""


class Issue(TypedDict):
    """One thing that is wrong with the input; `pointer` is a JSON Pointer into it."""

    pointer: str
    message: str
    keyword: NotRequired[str]


@dataclass(frozen=True)
class InvalidInput(Problem):
    """The input does not satisfy the operation's schema."""

    issues: list[Issue] = field(default_factory=list)


@dataclass(frozen=True)
class ToolFailed(Problem):
    """The operation ran and says that it failed."""

    content: list[ContentBlock] = field(default_factory=list)
    structured_content: Json = None


@dataclass(frozen=True)
class ConfirmationNeeded(Problem):
    """Call again with the same input and this token."""

    confirmation_token: str | None = None


class InputRequest(TypedDict):
    """What an operation asks: `elicitation/create`, `sampling/createMessage` or `roots/list`."""

    method: str
    params: NotRequired[dict[str, Any]]


@dataclass(frozen=True)
class InputRequired(Problem):
    """The operation asks something; its `resume` goes on with an answer to each question."""

    input_requests: dict[str, InputRequest] = field(default_factory=dict)
    request_state: str = ""
    input: Any = None
    """What the operation was called with."""


class CallOptions(TypedDict, total=False):
    idempotency_key: str
    """Calls with the same key and input run once; later ones get the first one's answer."""
    confirmation_token: str
    """The token of a `confirmation_required` problem."""
    headers: Mapping[str, str]
    timeout: float
    """Seconds without a byte."""


class SentinelError(Exception):
    """There is no result: `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.code}: {problem.detail}")
        self.problem = problem


O = TypeVar("O")
I = TypeVar("I")


@dataclass(frozen=True)
class Ok(Generic[O]):
    value: O


@dataclass(frozen=True)
class Err:
    problem: Problem


Outcome: TypeAlias = Ok[O] | Err


@dataclass(frozen=True)
class ProgressRecord:
    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True)
class LogRecord:
    level: str
    data: Json
    logger: str | None = None


@dataclass(frozen=True)
class ResultRecord(Generic[O]):
    result: O


StreamRecord: TypeAlias = ProgressRecord | LogRecord | ResultRecord[O]


def text_of(result: object) -> str:
    """The text of a result: that of its text blocks, or all of it as JSON."""
    content = result.get("content") if isinstance(result, dict) else None
    if not isinstance(content, list):
        return json.dumps(result)
    return "\n".join(block["text"] for block in content if isinstance(block, dict) and isinstance(block.get("text"), str))


Token: TypeAlias = str | Callable[[], str] | None
"""A bearer token, or what gives one for each request."""
Headers: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str]] | None

_TIMEOUT_S = 120.0
_EVENT_CHARS_MAX = 128 * 1024 * 1024
_LINE_END = re.compile(r"\r\n|\n|\r")


class EventReader:
    """Reads server-sent events piece by piece: the data of each."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = ""
        self._seen = 0
        self._data: list[str] = []
        self._size = 0

    def push(self, piece: bytes) -> list[str]:
        self._text += self._decoder.decode(piece)
        return self._read(is_end=False)

    def end(self) -> list[str]:
        """What was not ended by an empty line is an event, too."""
        self._text += self._decoder.decode(b"", final=True)
        found = self._read(is_end=True)
        if self._text:
            self._line(self._text, found)
            self._text = ""
        self._line("", found)
        return found

    def _read(self, *, is_end: bool) -> list[str]:
        found: list[str] = []
        at = 0
        for match in _LINE_END.finditer(self._text, self._seen):
            # A return at the end may be the first half of a line end.
            if not is_end and match[0] == "\r" and match.end() == len(self._text):
                break
            self._line(self._text[at : match.start()], found)
            at = match.end()
        self._text = self._text[at:]
        self._seen = len(self._text) - (1 if self._text.endswith("\r") else 0)
        if self._size + len(self._text) > _EVENT_CHARS_MAX:
            raise ValueError("an event is too large")
        return found

    def _line(self, line: str, found: list[str]) -> None:
        if line == "":
            if self._data:
                found.append("\n".join(self._data))
            self._data, self._size = [], 0
        elif line == "data" or line.startswith("data:"):
            value = line[5:]
            self._data.append(value[1:] if value.startswith(" ") else value)
            self._size += len(line)
        # Comments keep the connection alive; types and ids are in the data.


@dataclass(frozen=True)
class Request:
    """What is sent, before it is known by which kind of client."""

    path: str
    accept: str = "application/json"
    body: Any = None
    input: Any = None
    """What the operation is called with: a question is answered with the same."""
    headers: dict[str, str] = field(default_factory=dict)
    timeout: float | None = None


def _operation(name: str, input: Any, more: Mapping[str, Any], accept: str = "application/json") -> Request:
    return _request(quote(name, safe=""), input, input, more, accept)


def _continued(name: str, problem: InputRequired, answers: Mapping[str, Any], more: Mapping[str, Any]) -> Request:
    body = {"arguments": problem.input, "requestState": problem.request_state, "inputResponses": answers}
    return _request(f"{quote(name, safe='')}/continue", body, problem.input, more)


def _request(path: str, body: Any, input: Any, more: Mapping[str, Any], accept: str = "application/json") -> Request:
    headers = dict(more.get("headers") or {})
    if more.get("idempotency_key") is not None:
        headers["idempotency-key"] = more["idempotency_key"]
    if more.get("confirmation_token") is not None:
        headers["x-confirmation-token"] = more["confirmation_token"]
    return Request(path, accept, body, input, headers, more.get("timeout"))


def _local(code: LocalCode, detail: str, status: int = 0) -> Problem:
    """A problem that was found here."""
    retryable = code in ("connection_failed", "timed_out")
    return Problem(code, code.replace("_", " "), status, detail, retryable=retryable)


def _explained(error: Exception) -> SentinelError:
    if isinstance(error, SentinelError):
        return error
    if isinstance(error, httpx.TimeoutException):
        return SentinelError(_local("timed_out", str(error) or "nothing came in time"))
    if isinstance(error, ValueError):
        return SentinelError(_local("unreadable_answer", str(error)))
    return SentinelError(_local("connection_failed", str(error) or type(error).__name__))


_KNOWN_CODES: frozenset[str] = frozenset(get_args(KnownCode))


def _problem(document: Any, status: int, input: Any) -> Problem:
    code = document.get("code") if isinstance(document, dict) else None
    if not isinstance(code, str):
        what = f"the answer has status {status} and is no problem document: it may not come from the gateway"
        return _local("unrecognized", what, status)
    members: dict[str, Any] = {
        "code": code if code in _KNOWN_CODES else "unrecognized",
        "title": document.get("title", code),
        "status": document.get("status", status),
        "detail": document.get("detail", code),
        "type": document.get("type", "about:blank"),
        "instance": document.get("instance"),
        "hint": document.get("hint"),
        "retryable": document.get("retryable", False),
        "retry_after_ms": document.get("retry_after_ms"),
        "members": document,
    }
    match code:
        case "invalid_arguments" | "invalid_parameter":
            return InvalidInput(**members, issues=document.get("issues", []))
        case "tool_error":
            content = document.get("content", [])
            return ToolFailed(**members, content=content, structured_content=document.get("structuredContent"))
        case "confirmation_required" | "confirmation_invalid":
            return ConfirmationNeeded(**members, confirmation_token=document.get("confirmationToken"))
        case "input_required":
            asked, state = document.get("inputRequests", {}), document.get("requestState", "")
            return InputRequired(**members, input_requests=asked, request_state=state, input=input)
    return Problem(**members)


def _checked(response: httpx.Response, request: Request) -> httpx.Response:
    """A response that was read, if it is a success."""
    if response.is_success:
        return response
    try:
        document = response.json()
    except ValueError:
        document = None
    raise SentinelError(_problem(document, response.status_code, request.input))


class _Records:
    """The records of a stream, from its pieces."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._events = EventReader()
        self.is_done = False

    def read(self, piece: bytes) -> Iterator[StreamRecord[Any]]:
        return self._records(self._events.push(piece))

    def end(self) -> Iterator[StreamRecord[Any]]:
        yield from self._records(self._events.end())
        if not self.is_done:
            raise SentinelError(_local("unreadable_answer", "the stream ended without a result"))

    def _records(self, events: list[str]) -> Iterator[StreamRecord[Any]]:
        for data in events:
            record = self._record(json.loads(data))
            if record is not None and not self.is_done:
                self.is_done = isinstance(record, ResultRecord)
                yield record

    def _record(self, record: dict[str, Any]) -> StreamRecord[Any] | None:
        """None where it is news to this version."""
        match record.get("type"):
            case "progress":
                return ProgressRecord(record["progress"], record.get("total"), record.get("message"))
            case "log":
                return LogRecord(record["level"], record.get("data"), record.get("logger"))
            case "result":
                return ResultRecord(record["result"])
            case "error":
                raise SentinelError(_problem(record["error"], 0, self._request.input))
        return None


class _Common:
    """What both kinds of client know: where the gateway is, and who calls."""

    def __init__(
        self,
        base_url: str | None,
        token: Token,
        headers: Headers,
    ) -> None:
        base = base_url or BASE_URL
        if base is None:
            raise TypeError("base_url is missing")
        self._base = base.rstrip("/")
        self._token = token
        self._headers = headers

    def arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of a request of httpx."""
        given = self._headers() if callable(self._headers) else self._headers
        headers = dict(given or {})
        token = self._token() if callable(self._token) else self._token
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        headers |= {"accept": request.accept, **request.headers}
        arguments: dict[str, Any] = {"url": f"{self._base}/api/{request.path}", "headers": headers}
        if request.timeout is not None:
            arguments["timeout"] = request.timeout
        if request.body is None:
            return {"method": "GET", **arguments}
        return {"method": "POST", "json": request.body, **arguments}


class _Transport(_Common):
    def __init__(
        self,
        http: httpx.Client,
        base_url: str | None,
        token: Token,
        headers: Headers,
    ) -> None:
        super().__init__(base_url, token, headers)
        self._http = http

    def send(self, request: Request) -> httpx.Response:
        try:
            return _checked(self._http.request(**self.arguments(request)), request)
        except (httpx.HTTPError, ValueError) as error:
            raise _explained(error) from error

    def stream(self, request: Request) -> Iterator[StreamRecord[Any]]:
        records = _Records(request)
        try:
            with self._http.stream(**self.arguments(request)) as response:
                if not response.is_success:
                    response.read()
                for piece in _checked(response, request).iter_bytes():
                    yield from records.read(piece)
                    if records.is_done:
                        return
                yield from records.end()
        except (httpx.HTTPError, ValueError, LookupError) as error:
            raise _explained(error) from error


class _AsyncTransport(_Common):
    def __init__(
        self,
        http: httpx.AsyncClient,
        base_url: str | None,
        token: Token,
        headers: Headers,
    ) -> None:
        super().__init__(base_url, token, headers)
        self._http = http

    async def send(self, request: Request) -> httpx.Response:
        try:
            return _checked(await self._http.request(**self.arguments(request)), request)
        except (httpx.HTTPError, ValueError) as error:
            raise _explained(error) from error

    async def stream(self, request: Request) -> AsyncIterator[StreamRecord[Any]]:
        records = _Records(request)
        try:
            async with self._http.stream(**self.arguments(request)) as response:
                if not response.is_success:
                    await response.aread()
                async for piece in _checked(response, request).aiter_bytes():
                    for record in records.read(piece):
                        yield record
                    if records.is_done:
                        return
                for record in records.end():
                    yield record
        except (httpx.HTTPError, ValueError, LookupError) as error:
            raise _explained(error) from error


def _body(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise _explained(error) from error


class Operation(Generic[I, O]):
    """An operation: call it with its input."""

    def __init__(self, transport: _Transport, name: str) -> None:
        self._transport = transport
        self.name = name

    def __call__(self, input: I, **options: Unpack[CallOptions]) -> O:
        """Its result; raises a SentinelError if there is none."""
        result: O = _body(self._transport.send(_operation(self.name, input, options)))
        return result

    def safe(self, input: I, **options: Unpack[CallOptions]) -> Outcome[O]:
        """The same without raising."""
        try:
            return Ok(self(input, **options))
        except SentinelError as error:
            return Err(error.problem)

    def stream(self, input: I, **options: Unpack[CallOptions]) -> Iterator[StreamRecord[O]]:
        """What it says on the way, and at last its result."""
        return self._transport.stream(_operation(self.name, input, options, "text/event-stream"))

    def resume(self, problem: InputRequired, answers: Mapping[str, Any], **options: Unpack[CallOptions]) -> O:
        """Goes on with answers to what it asked."""
        result: O = _body(self._transport.send(_continued(self.name, problem, answers, options)))
        return result


class AsyncOperation(Generic[I, O]):
    """An operation: call it with its input."""

    def __init__(self, transport: _AsyncTransport, name: str) -> None:
        self._transport = transport
        self.name = name

    async def __call__(self, input: I, **options: Unpack[CallOptions]) -> O:
        """Its result; raises a SentinelError if there is none."""
        result: O = _body(await self._transport.send(_operation(self.name, input, options)))
        return result

    async def safe(self, input: I, **options: Unpack[CallOptions]) -> Outcome[O]:
        """The same without raising."""
        try:
            return Ok(await self(input, **options))
        except SentinelError as error:
            return Err(error.problem)

    def stream(self, input: I, **options: Unpack[CallOptions]) -> AsyncIterator[StreamRecord[O]]:
        """What it says on the way, and at last its result."""
        return self._transport.stream(_operation(self.name, input, options, "text/event-stream"))

    async def resume(self, problem: InputRequired, answers: Mapping[str, Any], **options: Unpack[CallOptions]) -> O:
        """Goes on with answers to what it asked."""
        result: O = _body(await self._transport.send(_continued(self.name, problem, answers, options)))
        return result


def _prompted(name: str, arguments: Any, options: Mapping[str, Any]) -> Request:
    return _request(f"prompts/{quote(name, safe='')}", arguments, arguments, options)


class Prompt(Generic[I]):
    """A prompt: call it with its arguments."""

    def __init__(self, transport: _Transport, name: str) -> None:
        self._transport = transport
        self.name = name

    def __call__(self, arguments: I, **options: Unpack[CallOptions]) -> PromptResult:
        result: PromptResult = _body(self._transport.send(_prompted(self.name, arguments, options)))
        return result


class AsyncPrompt(Generic[I]):
    """A prompt: call it with its arguments."""

    def __init__(self, transport: _AsyncTransport, name: str) -> None:
        self._transport = transport
        self.name = name

    async def __call__(self, arguments: I, **options: Unpack[CallOptions]) -> PromptResult:
        result: PromptResult = _body(await self._transport.send(_prompted(self.name, arguments, options)))
        return result


def _read(uri: str, options: Mapping[str, Any]) -> Request:
    return _request(f"resources/{quote(uri, safe='')}", None, None, options, "*/*")


def _resource(response: httpx.Response) -> ResourceContent:
    return ResourceContent(response.headers.get("content-type", "application/octet-stream"), response.content)


class Client:
    """Calls the gateway. To be closed, or used in `with`; `http` is a client of the caller's own, and stays open."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        token: Token = None,
        headers: Headers = None,
        timeout: float = _TIMEOUT_S,
        http: httpx.Client | None = None,
    ) -> None:
        self._own = http is None
        self._http = httpx.Client(timeout=timeout) if http is None else http
        self._transport = _Transport(self._http, base_url, token, headers)
        self.tools = Tools(self._transport)
        self.prompts = Prompts(self._transport)

    def read(self, uri: str, **options: Unpack[CallOptions]) -> ResourceContent:
        return _resource(self._transport.send(_read(uri, options)))

    def close(self) -> None:
        if self._own:
            self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncClient:
    """Calls the gateway from asynchronous code. To be closed, or used in `async with`."""

    def __init__(
        self,
        base_url: str | None = None,
        *,
        token: Token = None,
        headers: Headers = None,
        timeout: float = _TIMEOUT_S,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._own = http is None
        self._http = httpx.AsyncClient(timeout=timeout) if http is None else http
        self._transport = _AsyncTransport(self._http, base_url, token, headers)
        self.tools = AsyncTools(self._transport)
        self.prompts = AsyncPrompts(self._transport)

    async def read(self, uri: str, **options: Unpack[CallOptions]) -> ResourceContent:
        return _resource(await self._transport.send(_read(uri, options)))

    async def aclose(self) -> None:
        if self._own:
            await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
