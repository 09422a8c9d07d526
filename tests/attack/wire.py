"""A gRPC client of hand-written HTTP/2 frames: it keeps the rules or breaks them, as it is told."""
import dataclasses
import socket
import ssl
import time

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE = 1, 4  # settings
CANCEL = 8  # an error code
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_WINDOW = 2**31 - 1
FRAME_BYTES = 16384

IMAGE = "/upscale.v1.UpscaleService/UpscaleImage"
TILES = "/upscale.v1.UpscaleService/UpscaleTiles"
UNARY = "/upscale.v1.UpscaleService/Upscale"
RELOAD = "/upscale.v1.UpscaleService/ReloadModels"
ADMIN_RELOAD = "/upscale.v1.AdminService/ReloadModels"
INFO = "/upscale.v1.UpscaleService/GetServerInfo"
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
HEALTH_WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def setting(name, value):
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


def integer(value, prefix_bits, first=0):
    """An integer of HPACK (RFC 7541, 5.1) whose first byte's upper bits are `first`."""
    limit = (1 << prefix_bits) - 1
    if value < limit:
        return bytes((first | value,))
    value -= limit
    encoded = bytearray((first | limit,))
    while value >= 128:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def literal(name, value, first=0):
    """A header field without indexing; with `first` 0x40 one for the dynamic table."""
    return bytes((first,)) + b"".join(integer(len(text), 7) + text for text in (name.encode(), value.encode()))


def request_headers(path, extra=()):
    fields = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "attack"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *extra,
    )
    return b"".join(literal(name, value) for name, value in fields)


def envelope(message):
    """A message as gRPC sends it: uncompressed, after its length."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def decode_headers(block):
    """Header fields of a peer that was told to use no dynamic table and does not compress strings."""
    position = 0

    def read_integer(prefix_bits):
        nonlocal position
        value = block[position] & (1 << prefix_bits) - 1
        position += 1
        shift = 0
        while shift or value == (1 << prefix_bits) - 1:
            value += (block[position] & 127) << shift
            position += 1
            shift += 7
            if not block[position - 1] & 128:
                break
        return value

    def read_string():
        nonlocal position
        length = read_integer(7)
        position += length
        return block[position - length : position].decode("latin-1")

    headers = {}
    while position < len(block):
        first = block[position]
        if first & 0x80:
            headers[f"static {read_integer(7)}"] = ""
        elif first & 0xE0 == 0x20:
            read_integer(5)  # the table's size
        else:
            index = read_integer(6 if first & 0x40 else 4)
            name = f"static {index}" if index else read_string()
            headers[name] = read_string()
    return headers


@dataclasses.dataclass
class Answer:
    """One stream's answer, as far as it has come."""

    data: bytearray = dataclasses.field(default_factory=bytearray)
    headers: dict = dataclasses.field(default_factory=dict)  # those of the trailers, too
    ended: bool = False
    reset: int | None = None

    @property
    def status(self):
        """gRPC's code; None when the stream was reset or goes on."""
        return int(self.headers["grpc-status"]) if "grpc-status" in self.headers else None

    def forget_messages(self):
        """Drops the messages that are whole, and says how many."""
        position, count = 0, 0
        while position + 5 <= len(self.data):
            end = position + 5 + int.from_bytes(self.data[position + 1 : position + 5], "big")
            if end > len(self.data):
                break
            position, count = end, count + 1
        del self.data[:position]
        return count


class Connection:
    """One HTTP/2 connection, for one thread. Failures are OSErrors."""

    def __init__(self, endpoint, source="127.0.0.1", timeout_s=2.0, window=MAX_WINDOW, tls=None):
        self.timeout_s = timeout_s
        self.socket = socket.create_connection(endpoint, timeout_s, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=endpoint[0])
        self.answers = {}  # by stream, until taken
        self._next_stream = 1
        self._window = 65535
        self._initial_window = 65535
        self._windows = {}
        self._received = b""
        self._taken = 0
        settings = setting(HEADER_TABLE_SIZE, 0) + setting(INITIAL_WINDOW_SIZE, window)
        self.send(PREFACE, frame(SETTINGS, 0, 0, settings))
        if window:
            self.send(frame(WINDOW_UPDATE, 0, 0, (MAX_WINDOW - 65535).to_bytes(4, "big")))

    def send(self, *parts):
        self.socket.sendall(b"".join(parts))

    def new_stream(self):
        stream = self._next_stream
        self._next_stream += 2
        self._windows[stream] = self._initial_window
        self.answers[stream] = Answer()
        return stream

    def open(self, path, *messages, end=False, extra=()):
        """Begins a call, sends `messages`, and with `end` half-closes it. Returns its stream."""
        stream = self.new_stream()
        self.send(frame(HEADERS, END_HEADERS, stream, request_headers(path, extra)))
        if messages or end:
            self.send_data(stream, b"".join(map(envelope, messages)), end)
        return stream

    def send_data(self, stream, data, end=False):
        """Sends `data` within the server's flow control. TimeoutError when that lets nothing pass."""
        position = 0
        while position < len(data):
            room = min(self._window, self._windows[stream], FRAME_BYTES, len(data) - position)
            if room <= 0:
                if not self.poll(self.timeout_s):
                    raise TimeoutError("the server's flow control lets nothing pass")
                if self.answers[stream].ended:
                    return
                continue
            last = end and position + room == len(data)
            self.send(frame(DATA, END_STREAM * last, stream, data[position : position + room]))
            self._window -= room
            self._windows[stream] -= room
            position += room
        if end and not data:
            self.send(frame(DATA, END_STREAM, stream))

    def reset(self, *streams):
        self.send(*(frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big")) for stream in streams))
        for stream in streams:
            self._windows.pop(stream, None)
            self.answers.pop(stream, None)

    def call(self, path, *messages, timeout_s=None, extra=()):
        """A whole call. TimeoutError when it takes longer."""
        stream = self.open(path, *messages, end=True, extra=extra)
        return self.wait(stream, timeout_s)

    def wait(self, stream, timeout_s=None):
        deadline = time.monotonic() + (timeout_s or self.timeout_s)
        while not self.answers[stream].ended:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"no answer on stream {stream}")
            self.poll(left)
        self._windows.pop(stream, None)
        return self.answers.pop(stream)

    def poll(self, wait_s=0.0):
        """Handles what has come, or comes within `wait_s`; says whether anything did."""
        self.socket.settimeout(wait_s)
        try:
            data = self.socket.recv(1 << 20)
        except (BlockingIOError, TimeoutError, ssl.SSLWantReadError):
            return False
        finally:
            self.socket.settimeout(self.timeout_s)
        if not data:
            raise ConnectionResetError("the server has closed the connection")
        data = self._received + data
        position = 0
        while position + 9 <= len(data):
            end = position + 9 + int.from_bytes(data[position : position + 3], "big")
            if end > len(data):
                break
            stream = int.from_bytes(data[position + 5 : position + 9], "big")
            self._handle(data[position + 3], data[position + 4], stream, data[position + 9 : end])
            position = end
        self._received = data[position:]
        return True

    def _handle(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            self._apply_settings(payload)
        elif kind == PING and not flags & ACK:
            self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            raise ConnectionResetError(f"the server says goodbye: {payload[8:].decode('latin-1')}")
        elif kind == WINDOW_UPDATE:
            increment = int.from_bytes(payload, "big")
            if stream == 0:
                self._window += increment
            elif stream in self._windows:
                self._windows[stream] += increment
        elif kind == DATA:
            self._taken += len(payload)
            if self._taken > 1 << 24:
                self.send(frame(WINDOW_UPDATE, 0, 0, self._taken.to_bytes(4, "big")))
                self._taken = 0
        if stream in self.answers:
            self._take(self.answers[stream], kind, flags, payload)

    def _take(self, answer, kind, flags, payload):
        if kind == DATA:
            answer.data += payload
        elif kind == HEADERS:
            answer.headers.update(decode_headers(payload))
        elif kind == RST_STREAM:
            answer.reset = int.from_bytes(payload, "big")
            answer.ended = True
        if kind in (DATA, HEADERS) and flags & END_STREAM:
            answer.ended = True

    def _apply_settings(self, payload):
        for position in range(0, len(payload), 6):
            if int.from_bytes(payload[position : position + 2], "big") == INITIAL_WINDOW_SIZE:
                value = int.from_bytes(payload[position + 2 : position + 6], "big")
                for stream in self._windows:
                    self._windows[stream] += value - self._initial_window
                self._initial_window = value
        self.send(frame(SETTINGS, ACK, 0))

    def close(self):
        self.socket.close()
