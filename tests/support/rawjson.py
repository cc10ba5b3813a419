"""JSON as bytes: finds a member without decoding it, so that tests can compare what was really on the wire."""

import json
import re

TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)


def compact(raw):
    """The same bytes without the white space between tokens."""
    return b"".join(TOKEN.findall(raw))


def members(raw):
    """The members of an object, name -> bytes of the value; the last of equal names stays."""
    found, depth, name, start = {}, 0, None, 0
    for token in TOKEN.finditer(raw):
        text = token.group()
        if text in b"]}" and len(text) == 1:
            depth -= 1
            if depth == 0 and name is not None:
                found[name] = raw[start : token.start()].strip()
                return found
        elif text in b"[{" and len(text) == 1:
            depth += 1
        elif depth == 1 and text == b":" and name is None:
            name, start = key, token.end()
        elif depth == 1 and text == b"," and name is not None:
            found[name] = raw[start : token.start()].strip()
            name = None
        elif depth == 1 and name is None and text.startswith(b'"'):
            key = json.loads(text)
    return found


def dig(raw, *path):
    """The bytes of a nested member, or None where there is no such member."""
    for name in path:
        raw = members(raw).get(name) if raw is not None and raw.lstrip().startswith(b"{") else None
    return raw


class _Refused(ValueError):
    """Something that Python's parser takes and JSON does not."""


def _constant(name):
    raise _Refused(name)


def verdict(raw):
    """What a strict reader says: 'valid', 'duplicate' (valid, but names repeat in one object) or 'invalid'."""
    repeated = False

    def pairs(items):
        nonlocal repeated
        repeated = repeated or len({name for name, _ in items}) < len(items)
        return None

    try:
        json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=_constant, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return "invalid"
    return "duplicate" if repeated else "valid"
