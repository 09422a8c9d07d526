"""Requests whose end two readers may see in different places, each with a request hidden in it."""

FORBIDDEN = b"/v1/models/smuggled"  # the proxies refuse it
HIDDEN = b"GET " + FORBIDDEN + b" HTTP/1.1\r\nHost: a\r\n\r\n"
MARKER = b"GET /v1/info HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

_LENGTH = b"Content-Length: %d" % len(HIDDEN)
_CHUNKED = b"Transfer-Encoding: chunked"


def _request(*fields, body=b"", line=b"POST /v1/upscale HTTP/1.1", end=b"\r\n"):
    return end.join((line, b"Host: a", *fields, b"", b"")) + body


def _chunks(body):
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def _both_readings(name, field):
    """`field` is chunked to one reader and nothing to the other, whatever the lengths beside it."""
    short, after = b"0\r\n\r\n", b"%x\r\n" % len(HIDDEN)
    return {
        f"{name}, alone": _request(field, body=short + HIDDEN),
        f"{name}, CL.TE": _request(b"Content-Length: %d" % len(short + HIDDEN), field, body=short + HIDDEN),
        f"{name}, TE.CL": _request(field, b"Content-Length: %d" % len(after), body=_chunks(HIDDEN)),
    }


def _encodings():
    spellings = {
        "plain": _CHUNKED,
        "unknown": b"Transfer-Encoding: xchunked",
        "two": _CHUNKED + b"\r\nTransfer-Encoding: identity",
        "two, chunked last": b"Transfer-Encoding: identity\r\n" + _CHUNKED,
        "list": b"Transfer-Encoding: chunked, identity",
        "list, chunked last": b"Transfer-Encoding: identity, chunked",
        "twice": b"Transfer-Encoding: chunked, chunked",
        "empty": b"Transfer-Encoding:",
        "comma": b"Transfer-Encoding: ,chunked",
        "parameter": b"Transfer-Encoding: chunked;q=1",
        "quoted": b'Transfer-Encoding: "chunked"',
        "upper case": b"TRANSFER-ENCODING: CHUNKED",
        "space before the colon": b"Transfer-Encoding : chunked",
        "tab": b"Transfer-Encoding:\tchunked\t",
        "vertical tab": b"Transfer-Encoding: \x0bchunked",
        "no-break space": b"Transfer-Encoding: \xa0chunked",
        "NUL": b"Transfer-Encoding: chunked\0",
        "NUL in the name": b"Transfer-Encoding\0: chunked",
        "underscore": b"Transfer_Encoding: chunked",
        "space first": b" Transfer-Encoding: chunked",
        "folded": b"Transfer-Encoding:\r\n chunked",
        "folded name": b"Transfer-Encoding\r\n: chunked",
        "behind a folded field": b"X: y\r\n Transfer-Encoding: chunked",
        "behind a line feed": b"X: y\nTransfer-Encoding: chunked",
        "behind a carriage return": b"X: y\rTransfer-Encoding: chunked",
        "dropped by Connection": _CHUNKED + b"\r\nConnection: Transfer-Encoding",
    }
    forms = {}
    for name, field in spellings.items():
        forms |= _both_readings(f"Transfer-Encoding {name}", field)
    return forms


def _lengths():
    n = b"%d" % len(HIDDEN)
    spellings = {
        "plus": b"+" + n,
        "minus": b"-" + n,
        "zeros": b"000" + n,
        "hexadecimal": b"0x%x" % len(HIDDEN),
        "list": n + b", " + n,
        "list of two": n + b", 0",
        "two words": n + b" 0",
        "fraction": n + b".0",
        "exponent": n + b"e0",
        "vertical tab": b"\x0b" + n,
        "NUL": n + b"\0",
        "overflow": b"%d" % ((1 << 64) + len(HIDDEN)),
        "empty": b"",
    }
    fields = {f"Content-Length {name}": b"Content-Length: " + text for name, text in spellings.items()} | {
        "Content-Length twice": _LENGTH + b"\r\n" + _LENGTH,
        "Content-Length and 0": _LENGTH + b"\r\nContent-Length: 0",
        "0 and Content-Length": b"Content-Length: 0\r\n" + _LENGTH,
        "Content-Length space before the colon": b"Content-Length : " + n,
        "Content-Length folded": b"Content-Length:\r\n " + n,
        "Content-Length folded, then more": _LENGTH + b"\r\n 0",
        "Content-Length behind a folded field": b"X: y\r\n " + _LENGTH,
        "Content-Length behind a line feed": b"X: y\n" + _LENGTH,
        "Content-Length underscore": b"Content_Length: " + n,
        "Content-Length dropped by Connection": _LENGTH + b"\r\nConnection: Content-Length",
    }
    return {name: _request(field, body=HIDDEN) for name, field in fields.items()}


def _chunk_forms():
    size = b"%x" % len(HIDDEN)
    bodies = {
        "0x": b"0x" + size + b"\r\n" + HIDDEN + b"\r\n0\r\n\r\n",
        "plus": b"+" + size + b"\r\n" + HIDDEN + b"\r\n0\r\n\r\n",
        "minus": b"-0\r\n\r\n" + HIDDEN,
        "space before": b" 0\r\n\r\n" + HIDDEN,
        "space behind": b"0 \r\n\r\n" + HIDDEN,
        "no size": b"\r\n\r\n" + HIDDEN,
        "letters": b"zero\r\n\r\n" + HIDDEN,
        "overflow": b"1" + b"0" * 16 + b"\r\n\r\n" + HIDDEN,
        "overflow of 32 bits": b"100000000\r\n\r\n" + HIDDEN,
        "line feeds": b"0\n\n" + HIDDEN,
        "line feed behind the size": size + b"\n" + HIDDEN + b"\r\n0\r\n\r\n",
        "carriage return behind the size": size + b"\r" + HIDDEN + b"\r\n0\r\n\r\n",
        "line feed in the extension": b"5;x\n" + b"0\r\n\r\n" + HIDDEN,
        "line feed in a quoted extension": b'0;x="\n' + HIDDEN + b'"\r\n\r\n',
        "longer than its size": b"1\r\nAB\r\n0\r\n\r\n" + HIDDEN,
        "two bytes instead of an end": b"1\r\nAXX0\r\n\r\n" + HIDDEN,
        "trailers": b"0\r\n" + _LENGTH + b"\r\n\r\n" + HIDDEN,
        "trailer of line feeds": b"0\r\nX: y\n\n" + HIDDEN,
        "trailer without a colon": b"0\r\n" + HIDDEN,
    }
    return {f"chunk {name}": _request(_CHUNKED, body=body) for name, body in bodies.items()}


def _lines():
    return {
        "line feeds alone": _request(_LENGTH, body=HIDDEN, end=b"\n"),
        "carriage returns alone": _request(_LENGTH, body=HIDDEN, end=b"\r"),
        "two carriage returns": _request(_LENGTH, body=HIDDEN, end=b"\r\r\n"),
        "HTTP/1.0, chunked": _request(_CHUNKED, body=b"0\r\n\r\n" + HIDDEN, line=b"POST /v1/upscale HTTP/1.0"),
        "HTTP/1.10": _request(_LENGTH, body=HIDDEN, line=b"POST /v1/upscale HTTP/1.10"),
        "HTTP/2.0": _request(_LENGTH, body=HIDDEN, line=b"POST /v1/upscale HTTP/2.0"),
        "HTTP/0.9": b"GET /v1/info\r\n" + HIDDEN,
        "two targets": _request(line=b"GET /v1/info HTTP/1.1 GET " + FORBIDDEN),
        "tabs": _request(line=b"GET\t" + FORBIDDEN + b"\tHTTP/1.1"),
        "a line feed in the target": _request(line=b"GET /v1/info\nGET " + FORBIDDEN + b" HTTP/1.1"),
        "empty lines first": b"\r\n\r\n" + HIDDEN,
        "absolute": _request(line=b"GET http://a" + FORBIDDEN + b" HTTP/1.1"),
        "absolute, another host": _request(line=b"GET http://b" + FORBIDDEN + b" HTTP/1.1"),
        "absolute, a user": _request(line=b"GET http://a@b" + FORBIDDEN + b" HTTP/1.1"),
        "CONNECT": _request(line=b"CONNECT a:80 HTTP/1.1") + HIDDEN,
        "TRACE": _request(_LENGTH, body=HIDDEN, line=b"TRACE / HTTP/1.1"),
        "two Hosts": _request(b"Host: b", _LENGTH, body=HIDDEN),
        "no field name": _request(b": y", _LENGTH, body=HIDDEN),
        "NUL in a field": _request(b"X: \0y", _LENGTH, body=HIDDEN),
    }


def _unread_bodies():
    """Bodies that nobody reads, as the answer is known before."""
    forms = {}
    for name, line in {
        "GET": b"GET /v1/info HTTP/1.1",
        "HEAD": b"HEAD /v1/info HTTP/1.1",
        "OPTIONS": b"OPTIONS /v1/info HTTP/1.1",
        "no such path": b"POST /v1/none HTTP/1.1",
        "no such method": b"DELETE /v1/upscale HTTP/1.1",
        "HEAD of an upload": b"HEAD /v1/upscale HTTP/1.1",
        "bad option": b"POST /v1/upscale?scale=99 HTTP/1.1",
        "no image": b"POST /v1/upscale HTTP/1.1",
    }.items():
        forms[f"body, {name}"] = _request(_LENGTH, body=HIDDEN, line=line)
        forms[f"chunks, {name}"] = _request(_CHUNKED, body=_chunks(HIDDEN), line=line)
        forms[f"Expect, {name}"] = _request(b"Expect: 100-continue", _LENGTH, body=HIDDEN, line=line)
        forms[f"odd Expect, {name}"] = _request(b"Expect: y 100-continue", _LENGTH, body=HIDDEN, line=line)
    long = b"Content-Length: %d" % (100_000 + len(HIDDEN))
    forms["long body"] = _request(long, body=b"x" * 100_000 + HIDDEN)
    return forms


def _upgrades():
    h2c = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    websocket = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Version: 13")
    info = b"GET /v1/info HTTP/1.1"
    return {
        "h2c": _request(*h2c, line=info) + HIDDEN,
        "h2c with a body": _request(*h2c, _LENGTH, body=HIDDEN),
        "websocket": _request(*websocket, line=info) + HIDDEN,
        "websocket of a strange version": _request(*websocket[:2], b"Sec-WebSocket-Version: 777", line=info) + HIDDEN,
        "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
    }


def all_forms():
    """Bytes by name."""
    return _encodings() | _lengths() | _chunk_forms() | _lines() | _unread_bodies() | _upgrades()
