"""Attacks by requests over HTTP/1.1: headers, bodies, chunks, forms, and answers that nobody reads."""
import select
import socket
import statistics
import struct
import time

import messages

PATH = b"/v1/upscale?model=fast-2x"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
FORM = b"Content-Type: multipart/form-data; boundary=x\r\n"
MANY = 60  # calls at a time; an address may have 75


def _post(fields=CHUNKED, path=PATH):
    return b"POST " + path + b" HTTP/1.1\r\nHost: attack\r\n" + fields + b"\r\n"


def _length(count):
    return b"Content-Length: %d\r\n" % count


def _chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def _connect(target, source="127.0.0.1", receive_bytes=None):
    connection = socket.socket()
    if receive_bytes is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.settimeout(1)
    connection.bind((source, 0))
    connection.connect(target.server.http)
    target.kept.append(connection)
    target.count("connections")
    return connection


def _play(target, games, per_second, batch=1):
    """Begins each of `games`, a first part and one that is repeated, on connections of their own, goes on with all of
    them at a rate, and begins those anew that the server ends."""
    open_games = [None] * len(games)
    for _ in target.paced(per_second, batch):
        for i, (first, more) in enumerate(games):
            try:
                if open_games[i] is None:
                    open_games[i] = _connect(target)
                    open_games[i].sendall(first)
                open_games[i].sendall(more)
                target.count("sent")
            except OSError:
                target.count("ended")
                open_games[i] = None


def slow_bodies(target):
    """60 uploads that begin as an image does and go on by ten bytes a second, with their length and in chunks: calls
    that hold their slots."""
    image = messages.png(256, 256)
    uploads = []
    for i in range(MANY):
        try:
            connection = _connect(target)
            connection.sendall(_post(_length(len(image))) + image[:200] if i % 2 else _post() + _chunk(image[:200]))
            uploads.append(connection)
        except OSError:
            target.count("refused")
    for i, _ in enumerate(target.paced(10)):
        for k, connection in enumerate(uploads):
            try:
                connection.send(image[200 + i : 201 + i] if k % 2 else _chunk(image[200 + i : 201 + i]))
            except OSError:
                target.count("ended")


def unread_answers(target):
    """40 uploads of different images whose results, 4 MB each, nobody reads."""
    image = messages.png(600, 600)
    for _ in range(40):
        connection = _connect(target, receive_bytes=4096)
        mine = messages.distinct(image)
        try:
            connection.sendall(_post(_length(len(mine))) + mine)
        except OSError:
            target.count("refused")
        if target.left_s() < 0:
            break
    time.sleep(max(0, target.left_s()))


def _served(target, calls=20, source="127.0.0.9", patience_s=20):
    """Complains unless that many calls of a third address in a row are answered, as soon as the attack stands."""
    image, row, last = messages.png(32, 32), 0, ""
    end = time.monotonic() + patience_s
    while row < calls and time.monotonic() < end:
        with _connect(target, source) as connection:
            connection.settimeout(10)
            try:
                connection.sendall(_post(_length(len(image)) + b"Connection: close\r\n") + image)
                status = connection.recv(4096).split(b" ")[1]
            except (OSError, IndexError) as broken:
                status = str(broken).encode()
        row = row + 1 if status == b"200" else 0
        last = last if status == b"200" else status.decode()
        target.count(f"answered {status.decode()}")
        time.sleep(0.02)
    if row < calls:
        target.complain(f"a third address was not served: {last}")


def _median_call_s(target, calls, source="127.0.0.9"):
    """Seconds of the middle one of that many calls in a row, each on a connection of its own."""
    image, taken = messages.png(64, 64), []
    for _ in range(calls):
        mine = messages.distinct(image)
        start = time.monotonic()
        with socket.socket() as connection:
            connection.settimeout(20)
            connection.bind((source, 0))
            connection.connect(target.server.http)
            connection.sendall(_post(_length(len(mine)) + b"Connection: close\r\n") + mine)
            status = connection.recv(4096)[9:12]
            while connection.recv(1 << 16):
                pass
        taken.append(time.monotonic() - start)
        if status != b"200":
            target.complain(f"a third address was refused: {status.decode()}")
    return statistics.median(taken)


def slow_uploads(target):
    """400 uploads of a megabyte from two addresses, 300 bytes a second each: an upload has no slot before it is
    there."""
    uploads = []
    for i in range(400):
        try:
            uploads.append(_connect(target, source=f"127.0.0.{3 + i % 2}"))
            uploads[-1].sendall(_post(_length(1 << 20)) + messages.png(16, 16)[:300])
        except OSError:
            target.count("refused")
    _served(target)
    for _ in target.paced(1):
        for connection in uploads:
            try:
                connection.send(b"x" * 300)
            except OSError:
                target.count("ended")


def slow_readers(target):
    """12 readers of results of 4 MB from two addresses, 3 KB a second each: a result that nobody takes has no slot."""
    image = messages.png(600, 600)
    readers, tries = [], 0
    while len(readers) < 12 and tries < 100:
        mine = messages.distinct(image)
        reader = _connect(target, source=f"127.0.0.{3 + tries % 2}", receive_bytes=4096)
        reader.settimeout(30)
        reader.sendall(_post(_length(len(mine))) + mine)
        if reader.recv(12)[9:] == b"200":  # it had a slot and is being computed
            readers.append(reader)
        tries += 1
    _served(target)
    for _ in target.paced(1):
        for reader in readers:
            target.count("read", len(reader.recv(3000)))


def empty_scans(target):
    """From two addresses, 8 images at a time each: 20 KB of progressive JPEG whose 99 empty scans cost much of a
    decoder's time, and which are broken in the end. Another address's small images take little longer than before."""
    jpeg = messages.empty_scans_jpeg()

    def begin(i):
        connection = _connect(target, source=f"127.0.0.{3 + i % 2}")
        mine = messages.commented(jpeg)
        connection.sendall(_post(_length(len(mine)) + b"Connection: close\r\n") + mine)
        return connection

    usual = _median_call_s(target, 30)
    images = [begin(i) for i in range(16)]
    taken = []
    while target.left_s() > 0:
        taken.append(_median_call_s(target, 1))
        for i, connection in enumerate(images):
            if select.select([connection], [], [], 0)[0]:
                target.count("answered " + connection.recv(4096)[9:12].decode())
                images[i] = begin(i)
    during = statistics.median(taken)
    target.count("ms usually", round(1000 * usual))
    target.count("ms in the attack", round(1000 * during))
    if during > 5 * usual + 0.1:
        target.complain(f"a call of a third address took {during:.3f} s in the middle, {usual:.3f} s before")


def large_promises(target):
    """From two addresses, the headers of 12 WebP files that say to have 250 MB and of 30 interlaced PNGs of 100
    megapixels, whose pixels never come: nothing is reserved for an image that is not there."""
    vp8 = b"\x10\0\0\x9d\x01\x2a" + struct.pack("<HH", 4000, 4000)
    webp = b"RIFF" + struct.pack("<I", 250_000_000) + b"WEBPVP8 " + struct.pack("<I", 249_999_988) + vp8 + bytes(30)
    png = messages.png(10_000, 10_000, b"", interlaced=True)[:45]
    for i, image in enumerate([webp] * 12 + [png] * 30):
        connection = _connect(target, source=f"127.0.0.{3 + i % 2}")
        connection.sendall(_post(_length(250_000_008)) + image)
    time.sleep(0.5)
    reserved = target.server.metrics()["upscaled_memory_reserved_bytes"]
    target.count("MiB reserved", int(reserved) >> 20)
    if reserved > 64 << 20:
        target.complain(f"{int(reserved) >> 20} MiB are reserved for {len(webp) * 12 + len(png) * 30} bytes")
    _served(target)


def huge_headers(target):
    """Headers of a megabyte: one line, 200,000 fields, a field without a name's end; and 300 of almost 16 KiB that stay
    without their end."""
    begin = b"GET /v1/info HTTP/1.1\r\nHost: attack\r\n"
    for _ in range(300):
        try:
            _connect(target).sendall(begin + b"X: " + b"x" * 16_000)
        except OSError:
            target.count("refused")
    games = [
        (b"GET /", b"x" * (1 << 20)),
        (begin, b"a:b\r\n" * 200_000),
        (begin, b"x" * (1 << 20)),
        (begin, b"X: y\r\n " * 100_000),
    ]
    _play(target, games, 20)


def many_connections(target):
    """4,000 connections of 40 addresses to the HTTP port, half of them amid a header, which stay."""
    for i in range(4000):
        try:
            connection = _connect(target, f"127.0.1.{1 + i % 40}")
            if i % 2:
                connection.sendall(b"POST /v1/upscale HTTP/1.1\r\nHost: ")
        except OSError:
            target.count("refused")
        if target.left_s() < 0:
            break
    time.sleep(max(0, target.left_s()))


def chunk_games(target):
    """Chunks that say to be endless, whose size or extensions have no end, of one byte each, and trailers without
    end."""
    image = messages.png(64, 64)
    begin = _post() + _chunk(image[:100])
    games = [
        (begin + b"7fffffffffffffff\r\n", b"x" * 1000),
        (begin, b"0" * 10_000),
        (begin + b"ffffffffffffffffff", b"\r\n"),
        (begin + b"5;", b"x=y;" * 2500),
        (begin + b"5;x=\"", b"\\\"" * 5000),
        (begin, _chunk(b"x") * 2000),
        (begin, b"1;x=yyyyyyyyyyyyyyyy\r\nx\r\n" * 400),
        (begin + b"0\r\n", b"X: y\r\n" * 1700),
        (begin + b"0\r\nX: ", b"y" * 10_000),
    ]
    _play(target, games, 200, 4)


def form_games(target):
    """Forms with preambles, part headers, names and values without end, 100,000 parts, and much that looks like a
    boundary."""
    begin = _post(CHUNKED + FORM)
    part = b"--x\r\nContent-Disposition: form-data; name=\"%s\"\r\n\r\n"
    games = [
        (begin, _chunk(b"preamble\r\n" * 6000)),
        (begin, _chunk(b"\r\n--" * 15_000)),
        (begin + _chunk(b"--x\r\n"), _chunk(b"X: y\r\n" * 10_000)),
        (begin + _chunk(b"--x\r\nX: "), _chunk(b"y" * 60_000)),
        (begin + _chunk(b"--x\r\nContent-Disposition: form-data; name=\""), _chunk(b"n" * 60_000)),
        (begin + _chunk(part % b"scale"), _chunk(b"2" * 60_000)),
        (begin, _chunk((part % b"" + b"\r\n") * 1000)),
        (begin + _chunk(part % b"image"), _chunk(b"\r\n-" * 20_000)),
        (begin + _chunk(part % b"image"), _chunk(b"\r\n--\r" * 12_000)),
    ]
    _play(target, games, 50, 2)


def ghosts(target):
    """From two addresses, two requests in one write, the second cut: the client ends its half, reads one answer and
    goes. A second one that outlived its connection would hold a slot, and this takes all of them in a second."""
    image = messages.png(16, 16)
    ask = b"HEAD " + PATH + b" HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
    cut = _post(_length(len(image) + 100)) + image
    for i, _ in enumerate(target.paced(400)):
        try:
            with _connect(target, source=f"127.0.0.{1 + i % 2}") as connection:
                connection.sendall(ask + cut)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(4096)
        except OSError:
            target.count("refused")


def unread_pipelines(target):
    """50 connections that send 2,000 requests each at once, some with a body, and read none of the answers."""
    image = messages.png(8, 8)
    upload = _post(_length(len(image))) + image
    info = b"GET /v1/info HTTP/1.1\r\nHost: attack\r\n\r\n"
    missing = b"GET /none HTTP/1.1\r\nHost: attack\r\n\r\n"
    for _ in range(50):
        connection = _connect(target, receive_bytes=4096)
        connection.setblocking(False)
        try:
            connection.send((info + missing + upload) * 700)
        except OSError:
            target.count("refused")
    time.sleep(max(0, target.left_s()))
