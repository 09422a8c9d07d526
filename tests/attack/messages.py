"""The messages that are sent, as generated classes (`pb`) and as bytes, and images for them."""
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import zlib

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"


def _generate():
    with tempfile.TemporaryDirectory() as folder:
        source = "upscale/v1/upscale.proto"
        subprocess.run(["protoc", "-I", PROTO, f"--python_out={folder}", source], check=True)
        sys.path.insert(0, folder)
        try:
            from upscale.v1 import upscale_pb2
        finally:
            sys.path.remove(folder)
    return upscale_pb2


pb = _generate()

UNKNOWN_FIELD = b"\x7a\x00"  # field 15, no bytes
BROKEN = b"\xff" * 10  # no message


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width_px, height_px, rows=None, interlaced=False):
    """8-bit RGB of random pixels, or of `rows` as they are, filter bytes and all, compressed."""
    if rows is None:
        row_bytes = 3 * width_px
        rows = zlib.compress(b"".join(b"\0" + random.randbytes(row_bytes) for _ in range(height_px)))
    header = struct.pack(">IIBBBBB", width_px, height_px, 8, 2, 0, 0, interlaced)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def empty_scans_jpeg(side_px=3200):
    """A progressive JPEG of zeros in 99 scans: 20 bytes a scan, but a decoder visits all blocks. A last one is wrong."""
    blocks = (side_px // 8) ** 2

    def segment(marker, data):
        return b"\xff" + marker + struct.pack(">H", len(data) + 2) + data

    def table(kind, symbol):  # of one code, of one bit
        return segment(b"\xc4", bytes([kind, 1, *bytes(15), symbol]))

    def scan(first, last, high, low, bits):
        bits += "1" * (-len(bits) % 8)
        data = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
        return segment(b"\xda", bytes([1, 1, 0, first, last, high << 4 | low])) + data

    runs, rest = divmod(blocks, 1 << 14)  # of blocks without coefficients; the symbol is a run of 16,384 and more
    ends = ("0" + "0" * 14) * (runs - 1) + "0" + f"{rest:014b}"
    jpeg = b"\xff\xd8" + segment(b"\xdb", b"\0" + b"\1" * 64)
    jpeg += segment(b"\xc2", struct.pack(">BHHBBBB", 8, side_px, side_px, 1, 1, 0x11, 0))
    jpeg += table(0x00, 0) + table(0x10, 0xE0) + scan(0, 0, 0, 0, "0" * blocks)
    for first in range(1, 64, 9):
        jpeg += scan(first, first + 8, 0, 13, ends)
        jpeg += b"".join(scan(first, first + 8, low + 1, low, ends) for low in reversed(range(13)))
    return jpeg + scan(1, 9, 5, 4, ends)


def commented(jpeg):
    """The same picture as no other file."""
    return jpeg[:2] + b"\xff\xfe\0\x0a" + random.randbytes(8) + jpeg[2:]


def black_png(width_px, height_px):
    """The fewest bytes for the most pixels."""
    return png(width_px, height_px, zlib.compress(bytes((3 * width_px + 1) * height_px)))


def distinct(image):
    """A PNG of the same pixels as no other file: equal requests at a time are computed once."""
    end = len(image) - 12  # of IEND
    return image[:end] + _chunk(b"tEXt", b"n\0" + random.randbytes(8).hex().encode()) + image[end:]


def unary(image, **options):
    return pb.UpscaleRequest(image=image, options=pb.UpscaleOptions(**options)).SerializeToString()


def image_start(**options):
    start = pb.UpscaleImageStart(options=pb.UpscaleOptions(**options))
    return pb.UpscaleImageRequest(start=start).SerializeToString()


def image_chunk(data):
    return pb.UpscaleImageRequest(chunk=data).SerializeToString()


def image_chunks(image):
    return [image_chunk(image[start : start + 60_000]) for start in range(0, len(image), 60_000)]


def tiles_start(**options):
    return pb.UpscaleTilesRequest(start=pb.UpscaleTilesStart(**options)).SerializeToString()


def tile(width_px, height_px):
    pixels = bytes(3 * width_px * height_px)
    tile = pb.Tile(id=1, width_px=width_px, height_px=height_px, bits_per_sample=8, pixels=pixels)
    return pb.UpscaleTilesRequest(tile=tile).SerializeToString()
