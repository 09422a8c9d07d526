"""Attacks by connections: many, silent, half-begun, dropped."""
import socket
import time

import wire


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
