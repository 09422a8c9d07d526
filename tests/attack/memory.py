"""Attacks on memory by messages, results and metadata."""
import messages
import wire

MESSAGE_BYTES = 6 << 20


def _several(target, path, *parts, streams, image=None):
    """The same call on several streams of one connection, again and again; of an image with chunks of it."""

    def all_parts():
        return parts if image is None else (*parts, *messages.image_chunks(messages.distinct(image)))

    def act(connection):
        while target.left_s() > 0:
            opened = [connection.open(path, *all_parts(), end=True) for _ in range(streams)]
            for stream in opened:
                answer = connection.wait(stream, timeout_s=10)
                target.count(f"status {answer.status}")

    target.persist(act, timeout_s=10)


def unknown_fields(target):
    """Messages of 6 MB of unknown fields in UpscaleTiles, four at a time: parsed, each costs 340 MB."""
    fields = messages.UNKNOWN_FIELD * (MESSAGE_BYTES // 2)
    _several(target, wire.TILES, messages.tiles_start(), fields, streams=4)


def large_health_checks(target):
    """Health checks of 6 MB of unknown fields, eight at a time. They need no slot."""
    _several(target, wire.HEALTH_CHECK, messages.UNKNOWN_FIELD * (MESSAGE_BYTES // 2), streams=8)


def many_options(target):
    """The start message with its options a million times: fields that are known, merged again and again."""
    options = messages.pb.UpscaleTilesRequest(start=messages.pb.UpscaleTilesStart(model="x"))
    _several(target, wire.TILES, options.SerializeToString() * (MESSAGE_BYTES // 5), streams=4)


def result_pixels(target):
    """90 calls at a time ask for 1,600 megapixels of result from one pixel."""
    start = messages.image_start(size={"width_px": 40_000, "height_px": 40_000})
    _several(target, wire.IMAGE, start, streams=90, image=messages.png(1, 1))


def bombs(target):
    """Twelve images at a time of 25 black megapixels in 75 KB."""
    _several(target, wire.IMAGE, messages.image_start(), streams=12, image=messages.black_png(6144, 4096))


def zero_window(target):
    """60 calls for results of 4 megapixels whose flow-control window is zero: nobody takes the results."""
    image = messages.png(256, 256)
    start = messages.image_start(scale=8)

    def act(connection):
        for _ in range(60):
            connection.open(wire.IMAGE, start, *messages.image_chunks(messages.distinct(image)), end=True)
            target.count("calls")
        for _ in target.paced(10):
            connection.poll()

    target.persist(act, window=0)


def large_metadata(target):
    """9 KB of metadata fail their own call and no other call of the connection."""

    def act(connection):
        for _ in target.paced(20):
            try:
                other = connection.open(wire.TILES, messages.tiles_start())
                connection.open(wire.INFO, b"", end=True, extra=[("x-large", "x" * 9000)])
                connection.send_data(other, wire.envelope(messages.tile(8, 8)), end=True)
                status = connection.wait(other, timeout_s=10).status
            except ConnectionError as error:
                status = error
            if status != 0:
                target.complain(f"a call failed for the metadata of another: {status}")
                return
            target.count("calls")

    target.persist(act)
