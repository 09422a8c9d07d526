"""Attacks by raw tiles."""
import messages
import wire

OUTSTANDING = 150_000
BATCH = 500


def quadratic_cancel(target):
    """One UpscaleTiles call with 150,000 outstanding 1x1 tiles is cancelled, again and again. Dropping them
    must not hold up others, nor SIGTERM the last ones."""
    tiles = wire.envelope(messages.tile(1, 1)) * BATCH

    def act(connection):
        while target.left_s() > 0:
            stream = connection.open(wire.TILES, messages.tiles_start())
            for _ in range(OUTSTANDING // BATCH):
                connection.send_data(stream, tiles)
                connection.poll()
                target.count("tiles", BATCH)
                if target.left_s() < 0 or connection.answers[stream].ended:
                    break
            connection.reset(stream)
            target.count("cancels")

    target.persist(act)


def unread_tiles(target):
    """1x1 tiles on twenty calls whose results nobody takes: a tile costs memory beside its pixels."""
    tiles = wire.envelope(messages.tile(1, 1)) * BATCH

    def act(connection):
        streams = [connection.open(wire.TILES, messages.tiles_start()) for _ in range(20)]
        while target.left_s() > 0:
            for stream in streams:
                connection.send_data(stream, tiles)
                target.count("tiles", BATCH)
            connection.poll()

    target.persist(act, window=0)


def _flood(target, tile, per_second, batch, **start):
    """Tiles at a rate, their results read, on calls that begin anew when the server ends them."""

    def act(connection):
        stream = None
        for _ in target.paced(per_second, batch):
            connection.poll()
            if stream is None or connection.answers[stream].ended:
                stream = connection.open(wire.TILES, messages.tiles_start(**start))
                target.count("calls")
            connection.send_data(stream, tile * batch)
            connection.answers[stream].data.clear()
            target.count("tiles", batch)

    target.persist(act)


def tiny_tiles(target):
    """30,000 1x1 tiles a second on one call. What a tile costs beside its pixels must count."""
    _flood(target, wire.envelope(messages.tile(1, 1)), 30_000, 100)


def thin_tiles(target):
    """Tiles of 16384x1, whose halo is many times their area, as fast as they are taken."""
    _flood(target, wire.envelope(messages.tile(16384, 1)), 1000, 10)


def broken_message(target):
    """A message that is none ends UpscaleTiles with an error, not as if the client had half-closed."""

    def act(connection):
        for _ in target.paced(50):
            answer = connection.call(wire.TILES, messages.tiles_start(), messages.tile(4, 4), messages.BROKEN)
            if answer.status == 0:
                target.complain("an unparsable message was taken for the end")
            target.count("calls")

    target.persist(act)
