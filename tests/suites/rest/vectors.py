"""Server-sent events as a stream may bring them, and the data of each event."""

EVENTS = [
    ("one event", "data: a\n\n", ["a"]),
    ("three kinds of line ends", "data: a\r\n\r\ndata: b\n\ndata: c\r\rdata: d\r\n\n", ["a", "b", "c", "d"]),
    ("data on several lines", "data: a\ndata:b\ndata:  c\n\n", ["a\nb\n c"]),
    ("comments and other fields", ": hello\nevent: x\nid: 1\nretry: 5\ndata: a\n:\n\n: bye\n\n", ["a"]),
    ("no data", "event: x\n\n\n\n", []),
    ("a field without a colon", "data\n\ndata: a\n\n", ["", "a"]),
    ("a field that begins alike", "database: no\ndata: a\n\n", ["a"]),
    ("an event that the end cuts", "data: a\n\ndata: b", ["a", "b"]),
    ("an event without its empty line", "data: a\ndata: b\n", ["a\nb"]),
    ("a return at the end", "data: a\r", ["a"]),
    ("characters of several bytes", "data: größe 😀\n\n", ["größe 😀"]),
    ("a mark of the byte order", "\ufeffdata: a\n\n", ["a"]),
]
