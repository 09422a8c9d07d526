"""Attacks by images of every format that is read, as results of every format that is written."""
import collections
import pathlib
import random

import messages
import wire

SEEDS = pathlib.Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "codecs"
WRITTEN = [messages.pb.ImageFormat.Value(f"IMAGE_FORMAT_{name}") for name in ("PNG", "JPEG", "WEBP", "AVIF", "JXL", "TIFF")]
PIXELS_PX = 768  # side of images whose results take long to encode
CALLS_AT_A_TIME = 16
# OK, INVALID_ARGUMENT, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED: an answer to such calls. INTERNAL is not.
ANSWERS = (0, 3, 4, 8, 12)


def spoiled(file):
    """The file as it is, cut, or with bytes changed."""
    kind = random.randrange(4)
    if kind == 0:
        return file[: random.randrange(len(file))]
    if kind == 1:
        changed = bytearray(file)
        for _ in range(random.choice((1, 2, 8))):
            changed[random.randrange(len(file))] = random.randrange(256)
        return bytes(changed)
    return file


def any_options():
    """Options at random; few of the calls are equal."""
    pb = messages.pb
    return {
        "format": random.choice(WRITTEN),
        "scale": random.choice((0.5, 1, 2, 3)),
        "quality": random.choice((1, random.randrange(1, 101), 100)),
        "metadata": random.choice(pb.MetadataPolicy.values()),
        "on_damage": random.choice(pb.DamagePolicy.values()),
        "depth": random.choice(pb.Depth.values()),
        "alpha": random.choice(pb.AlphaMethod.values()),
        "seamless": random.random() < 0.2,
    }


def every_format(target):
    """Files of every format, whole, cut and damaged, still and moving, become results of every format, with options at
    random. A third of the calls is cancelled."""
    files = [path.read_bytes() for path in sorted(SEEDS.iterdir()) if path.is_file()]

    def act(connection):
        pending = collections.deque()
        while target.left_s() > 0 or pending:
            if target.left_s() > 0 and len(pending) < CALLS_AT_A_TIME:
                file = spoiled(random.choice(files))
                begun = connection.open(wire.IMAGE, messages.image_start(**any_options()), messages.image_chunk(file), end=True)
                pending.append((begun, random.random() < 0.33))
                continue
            stream, cancel = pending.popleft()
            if cancel:
                connection.poll(random.random() / 20)
                connection.reset(stream)
                target.count("cancelled")
                continue
            answer = connection.wait(stream, timeout_s=10)
            target.count(f"status {answer.status}")
            if answer.status not in ANSWERS:
                target.complain(f"a call ended with status {answer.status}: {answer.headers.get('grpc-message')}")

    target.persist(act, timeout_s=10)


def slow_encoders(target):
    """Calls for results that take long to encode: lossless and lossy AVIF and JPEG XL of noise, eight at a time, half of
    them cancelled while they are encoded."""
    slow = [format for format in WRITTEN if messages.pb.ImageFormat.Name(format)[13:] in ("AVIF", "JXL")]
    image = messages.png(PIXELS_PX, PIXELS_PX)

    def act(connection):
        while target.left_s() > 0:
            streams = []
            for i in range(8):
                options = {"format": slow[i % 2], "quality": random.choice((90, 100)), "scale": 1}
                parts = (messages.image_start(**options), *messages.image_chunks(messages.distinct(image)))
                streams.append(connection.open(wire.IMAGE, *parts, end=True))
            connection.poll(0.3)
            connection.reset(*streams[:4])
            for stream in streams[4:]:
                target.count(f"status {connection.wait(stream, timeout_s=20).status}")

    target.persist(act, timeout_s=20)
