"""Attacks by calls that stay: unfed, unread, idle."""
import socket
import time

import messages
import tiles
import wire

STREAMS_A_CONNECTION = 190
MAX_CLOSE_S = 20


def _hold(target, path, *parts, streams, endpoint=None):
    """Opens `streams` calls that are not half-closed, over several connections, and keeps them."""
    opened = 0
    while opened < streams and target.left_s() > 0:
        try:
            connection = target.connect(endpoint)
            for _ in range(min(STREAMS_A_CONNECTION, streams - opened)):
                connection.open(path, *parts)
                opened += 1
        except OSError:
            target.count("connections ended")
            time.sleep(0.01)
    target.count("streams", opened)


def _wait(target):
    for _ in target.paced(20):
        for connection in target.kept:
            try:
                connection.poll()
            except OSError:
                pass


def idle_reflection(target):
    """1,500 streams of server reflection that ask nothing, on the service's port and on the operators'."""
    _hold(target, wire.REFLECTION, streams=1500)
    if target.server.admin is not None:
        _hold(target, wire.REFLECTION, streams=1500, endpoint=target.server.admin)
    _wait(target)


def watches(target):
    """3,000 health watches."""
    _hold(target, wire.HEALTH_WATCH, b"", streams=3000)
    _wait(target)


def _fill_slots(target, chunks):
    """Keeps 100 UpscaleImage calls open, anew where the server ends them; four times a second each sends the
    next of `chunks`, as long as there are some."""

    def act(connection):
        sent = {}
        for _ in target.paced(4):
            connection.poll()
            ended = [stream for stream in sent if connection.answers[stream].ended]
            for stream in ended:
                del sent[stream], connection.answers[stream]
            target.count("ended", len(ended))
            while len(sent) < 100:
                sent[connection.open(wire.IMAGE, messages.image_start())] = 0
            for stream, position in sent.items():
                if position < len(chunks):
                    connection.send_data(stream, wire.envelope(messages.image_chunk(chunks[position])))
                    sent[stream] += 1

    target.persist(act)


def unfed_streams(target):
    """All slots held by calls that begin and send no more."""
    _fill_slots(target, [])


def dripping_streams(target):
    """All slots held by calls that send an empty chunk now and then."""
    _fill_slots(target, [b""] * 1000)


def slow_header(target):
    """All slots held by calls that send an image a byte at a time."""
    _fill_slots(target, [bytes((byte,)) for byte in messages.png(9, 9)])


def _drip(target, path, first, more):
    """400 calls from two addresses that begin with the messages `first`, and send the bytes `more` each second."""
    connections = [target.connect(source=f"127.0.0.{3 + i % 2}") for i in range(8)]
    calls = [(one, one.open(path, *first)) for one in connections for _ in range(50)]
    target.count("calls", len(calls))
    for _ in target.paced(1):
        for connection, stream in calls:
            try:
                connection.poll()
                answer = connection.answers.get(stream)
                if answer is None:
                    continue
                if answer.ended:
                    target.count(f"ended with {connection.answers.pop(stream).status}")
                else:
                    connection.send_data(stream, more)
            except OSError:
                target.count("connections ended")


def slow_grpc_uploads(target):
    """400 uploads from two addresses, 300 bytes a second each: an upload has no slot before it has come, and a call of
    a third address is served."""
    first = [messages.image_start(), messages.image_chunk(messages.png(16, 16)[:300])]
    _drip(target, wire.IMAGE, first, wire.envelope(messages.image_chunk(b"x" * 300)))


def slow_grpc_readers(target):
    """12 readers of results of 4 MB from two addresses, 3 KB a second each: a result that its client does not take has
    no slot."""
    image = messages.png(600, 600)
    readers = []
    for i in range(100):
        connection = target.connect(source=f"127.0.0.{3 + i % 2}", window=1 << 14, timeout_s=10)
        chunks = messages.image_chunks(messages.distinct(image))
        stream = connection.open(wire.IMAGE, messages.image_start(model="fast-2x"), *chunks, end=True)
        answer = connection.answers[stream]
        give_up = time.monotonic() + 30
        while not answer.data and not answer.ended and time.monotonic() < give_up:
            connection.poll(0.1)
        if answer.data and not answer.ended:  # it had a slot and is being computed
            readers.append((connection, stream))
        if len(readers) == 12:
            break
    target.count("readers", len(readers))
    for _ in target.paced(1):
        for connection, stream in readers:
            connection.send(wire.frame(wire.WINDOW_UPDATE, 0, stream, (3000).to_bytes(4, "big")))
            connection.poll()


def hanging_drain(target):
    """SIGTERM while everything hangs that can: idle streams of every method, unread results, and up to 150,000
    tiles, as many as the server takes in the attack's time, that are cancelled at that moment."""
    _hold(target, wire.REFLECTION, streams=200)
    _hold(target, wire.HEALTH_WATCH, b"", streams=100)
    _hold(target, wire.IMAGE, messages.image_start(), streams=20)
    connection = target.connect()
    stream = connection.open(wire.TILES, messages.tiles_start())
    batch = wire.envelope(messages.tile(1, 1)) * tiles.BATCH
    for _ in range(tiles.OUTSTANDING // tiles.BATCH):
        connection.send_data(stream, batch)
        target.count("tiles", tiles.BATCH)
        if target.left_s() < 0:
            break


def unread_results(target):
    """Four results of 48 MB that nobody reads, and two of whose clients have ended their half: their connections must end,
    whatever gRPC still wants to write to them."""
    connections = [target.connect(timeout_s=10) for _ in range(4)]
    for connection in connections:
        chunks = messages.image_chunks(messages.png(1024, 1024))
        connection.open(wire.IMAGE, messages.image_start(model="fast-2x", scale=4), *chunks, end=True)
        target.count("results")
    time.sleep(1)  # until the results have begun
    for connection in connections[:2]:
        connection.socket.shutdown(socket.SHUT_WR)
    time.sleep(max(0, target.left_s()))


def connections_ended(server):
    """A check that soon no connection is left; the victim has gone."""
    deadline = time.monotonic() + MAX_CLOSE_S
    while left := server.metrics().get('upscaled_connections{port="grpc"}'):
        if time.monotonic() > deadline:
            return [f"{left:.0f} connections are left"]
        time.sleep(0.1)
    return []
