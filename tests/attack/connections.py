"""Attacks by connections: many, silent, half-begun, dropped."""
import errno
import selectors
import socket
import ssl
import time

import wire

SCARCE_DESCRIPTORS = 600
RESERVED_DESCRIPTORS = 64  # of those, for files, devices, and sockets that are about to close
STORM_PER_S = 500  # handshakes for each second that the storm may take: 10,000 in 20 s
STORM_PATIENCE_S = 5.0  # of a client with one handshake
STORM_ADDRESSES = [f"127.0.0.{host}" for host in range(3, 13)]
STORM_WIDTH = 40  # handshakes at a time from one address


def _sockets(target, endpoint, number, first=b""):
    """As many connections as the server takes, each after `first`, kept."""
    for _ in range(number):
        try:
            connection = socket.create_connection(endpoint, timeout=1)
            connection.sendall(first)
            target.kept.append(connection)
            target.count("connections")
        except OSError:
            target.count("refused")
        if target.left_s() < 0:
            break


def descriptors(target):
    """1,100 silent connections for a second, to a server of 1,024 descriptors, then they close: new clients
    must connect during and after it."""
    _sockets(target, target.server.grpc, 1100)
    time.sleep(1)
    while target.kept:
        target.kept.pop().close()
    time.sleep(max(0, target.left_s()))


def silent_connections(target):
    """1,100 connections that say the first half of HTTP/2's preface, or nothing, and stay."""
    _sockets(target, target.server.grpc, 550)
    _sockets(target, target.server.grpc, 550, wire.PREFACE[:12])
    time.sleep(max(0, target.left_s()))


def half_handshakes(target):
    """1,100 connections to a server with TLS that begin a handshake and leave it there."""
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(50)
    _sockets(target, target.server.grpc, 1100, hello)
    time.sleep(max(0, target.left_s()))


def handshakes(target):
    """Whole TLS handshakes, 300 a second, each dropped at once."""
    for _ in target.paced(300):
        try:
            wire.Connection(target.server.grpc, tls=target.server.tls).close()
            target.count("handshakes")
        except OSError:
            target.count("refused")


class _Handshake:
    """A client that connects, shakes hands and waits for the server's first bytes, without blocking."""

    def __init__(self, target, source):
        self.source = source
        self.since = time.monotonic()
        raw = socket.socket()
        raw.setblocking(False)
        raw.bind((source, 0))
        if raw.connect_ex(target.server.grpc) not in (0, errno.EINPROGRESS):
            raise OSError("cannot connect")
        self.socket = target.server.tls.wrap_socket(raw, do_handshake_on_connect=False)
        self.wants = selectors.EVENT_WRITE

    def advance(self):
        """Whether the handshake has ended; OSError: the server has ended it."""
        try:
            self.socket.do_handshake()
            return True
        except ssl.SSLWantReadError:
            self.wants = selectors.EVENT_READ
        except ssl.SSLWantWriteError:
            self.wants = selectors.EVENT_WRITE
        return False


def reconnects(target):
    """All clients of ten addresses come back at once, with a whole TLS handshake each, and try again when that fails or
    takes 5 s: all of them get through, 10,000 in 20 s on two cores. (--scale 10 makes as many.)"""
    left = dict.fromkeys(STORM_ADDRESSES, int(STORM_PER_S * target.seconds / len(STORM_ADDRESSES)))
    running = dict.fromkeys(STORM_ADDRESSES, 0)
    selector = selectors.DefaultSelector()
    begun = time.monotonic()
    target.left_s()

    def end(handshake, done):
        selector.unregister(handshake.socket)
        handshake.socket.close()
        running[handshake.source] -= 1
        left[handshake.source] -= done
        target.count("handshakes" if done else "tried again")

    while any(left.values()) and target.left_s() > -4 * target.seconds:
        for source in STORM_ADDRESSES:
            while running[source] < min(left[source], STORM_WIDTH):
                handshake = _Handshake(target, source)
                selector.register(handshake.socket, handshake.wants, handshake)
                running[source] += 1
        for key, _ in selector.select(timeout=0.1):
            handshake = key.data
            try:
                if handshake.advance():
                    end(handshake, True)
                else:
                    selector.modify(handshake.socket, handshake.wants, handshake)
            except OSError:
                end(handshake, False)
        late = time.monotonic() - STORM_PATIENCE_S
        for handshake in [key.data for key in selector.get_map().values()]:
            if handshake.since < late:
                end(handshake, False)
    target.count("ms in all", round(1000 * (time.monotonic() - begun)))
    if any(left.values()):
        target.complain(f"{sum(left.values())} clients have no connection after {5 * target.seconds:.0f} s")


def session_tickets(target):
    """A client that comes back with a session ticket saves the server a signature, and is let in as any other."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    session = None
    for _ in target.paced(20):
        with socket.create_connection(target.server.http, timeout=10) as raw:
            with context.wrap_socket(raw, session=session) as connection:
                if session is not None and not connection.session_reused:
                    target.complain("a session ticket was not taken")
                connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                    target.complain("a client with a ticket is not served")
                target.count("resumed" if connection.session_reused else "new")
                session = connection.session  # the next ticket, which came with the answer


def scarce_descriptors(target):
    """700 silent connections from two addresses to each port of a server of 600 descriptors: it keeps some for its files
    and its work."""
    for i in range(700):
        for endpoint in (target.server.grpc, target.server.http):
            try:
                connection = socket.create_connection(endpoint, timeout=1, source_address=(f"127.0.0.{3 + i % 2}", 0))
                target.kept.append(connection)
                target.count("connections")
            except OSError:
                target.count("refused")
    time.sleep(max(1, target.left_s()))


def has_descriptors_left(server):
    used = server.descriptors()
    if used <= SCARCE_DESCRIPTORS - RESERVED_DESCRIPTORS:
        return []
    return [f"{used} of {SCARCE_DESCRIPTORS} descriptors are in use"]


def dropped_connections(target):
    """2,000 connections a second, opened and dropped, half of them amid a call."""
    for i in target.paced(2000, 2):
        try:
            wire.Connection(target.server.grpc, tls=target.server.tls).close()
            connection = wire.Connection(target.server.grpc, tls=target.server.tls)
            connection.open(wire.IMAGE, b"")
            connection.close()
            target.count("connections", 2)
        except OSError:
            target.count("refused")


def http_descriptors(target):
    """1,100 silent connections to the HTTP port of a server of 1,024 descriptors, which stay."""
    _sockets(target, target.server.http, 1100)
    time.sleep(max(0, target.left_s()))


def idle_cpu(server):
    """Nothing is asked of the server: it must not spin."""
    before = server.cpu_s()
    time.sleep(1)
    used = server.cpu_s() - before
    return [f"{used:.2f} s of CPU in an idle second"] if used > 0.3 else []


def http_dripping(target):
    """200 connections to the HTTP port that send a header a letter a second: each must be closed within ten
    seconds, whatever it sends."""
    _sockets(target, target.server.http, 200, b"GET / HTTP/1.1\r\nX: ")
    open_connections = target.kept
    for _ in target.paced(1):
        left = []
        for connection in open_connections:
            try:
                connection.send(b"x")
                left.append(connection)
            except OSError:
                target.count("closed")
        open_connections = left
    if open_connections:
        target.complain(f"{len(open_connections)} connections are still open after {target.seconds:.0f} s")


def http_unread(target):
    """100 connections that ask for the metrics 2,000 times each and read none of it."""
    endpoint = target.server.admin or target.server.http
    requests = b"GET /metrics HTTP/1.1\r\nHost: attack\r\n\r\n" * 2000
    _sockets(target, endpoint, 100, requests)
    time.sleep(max(0, target.left_s()))
