#!/usr/bin/env python3
"""Films through the real command and server: video_test.py UPSCALED UPSCALE

Frames of a film are those of `upscale image`, bit by bit, over two servers of which one is killed; YUV4MPEG2 keeps its
kind; and with ffmpeg, where it is, a film with sound keeps sound, length and rate.
"""
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/attack")]
import harness
import messages

FRAMES = 12


def run(*command, input: bytes | None = None) -> bytes:
    done = subprocess.run([str(part) for part in command], input=input, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, (command, done.returncode, done.stderr[-2000:])
    return done.stdout


def split_pngs(stream: bytes) -> list[bytes]:
    end = b"IEND\xaeB`\x82"
    return [part + end for part in stream.split(end)[:-1]]


def frames_are_single_images(upscale: str, servers: list, folder: pathlib.Path) -> None:
    sources = [messages.png(random.randint(20, 90), random.randint(20, 90)) for _ in range(FRAMES)]
    sources[5] = sources[4]
    addresses = ["{}:{}".format(*server.grpc) for server in servers]
    film = subprocess.Popen([upscale, "video", "-i", "-", "-o", "-", "--server", ",".join(addresses)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    film.stdin.write(b"".join(sources[:6]))
    film.stdin.flush()
    servers[1].process.kill()
    told, errors = film.communicate(b"".join(sources[6:]), timeout=300)
    assert film.returncode == 0, errors
    assert b"1 equal to the one before" in errors, errors
    results = split_pngs(told)
    assert len(results) == FRAMES, len(results)
    for number, (source, result) in enumerate(zip(sources, results)):
        (folder / "frame.png").write_bytes(source)
        run(upscale, "image", "-i", folder / "frame.png", "-o", folder / "frame-2x.png", "--server", addresses[0], "--quiet")
        assert result == (folder / "frame-2x.png").read_bytes(), number


def y4m_keeps_its_kind(upscale: str, server) -> None:
    address = "{}:{}".format(*server.grpc)
    for tag, samples, sample_bytes in (("420jpeg", 35 + 2 * 12, 1), ("420p10", 35 + 2 * 12, 2), ("422", 35 + 2 * 20, 1),
                                       ("444", 105, 1), ("mono", 35, 1)):
        frame = bytes([128]) * samples if sample_bytes == 1 else b"\x00\x02" * samples
        film = f"YUV4MPEG2 W7 H5 F24000:1001 Ip A1:1 C{tag}\n".encode() + 3 * (b"FRAME\n" + frame)
        header, rest = run(upscale, "video", "-i", "-", "-o", "-", "--server", address, "--quiet", input=film).split(b"\n", 1)
        assert header == f"YUV4MPEG2 W14 H10 F24000:1001 Ip A1:1 C{tag} XCOLORRANGE=LIMITED".encode(), header
        chroma = {"420jpeg": 35, "420p10": 35, "422": 70, "444": 140, "mono": 0}[tag]
        result = rest[len(b"FRAME\n"):][:(140 + 2 * chroma) * sample_bytes]
        assert rest == 3 * (b"FRAME\n" + result), (tag, len(rest))
        middle = 128 if sample_bytes == 1 else 512
        values = result if sample_bytes == 1 else [result[i] | result[i + 1] << 8 for i in range(0, len(result), 2)]
        assert max(abs(value - middle) for value in values) <= 2 * sample_bytes, (tag, min(values), max(values))


def wrong_input_is_named(upscale: str, server, folder: pathlib.Path) -> None:
    address = "{}:{}".format(*server.grpc)
    for stream, word in ((b"", b"no frames"), (b"RIFF....AVI LIST", b"ffmpeg"), (b"YUV4MPEG2 W4 H4 It\n", b"interlaced"),
                         (messages.png(9, 9)[:-5], b"within frame 0")):
        done = subprocess.run([upscale, "video", "-i", "-", "-o", "-", "--server", address], input=stream, capture_output=True,
                              timeout=300)
        assert done.returncode != 0 and word in done.stderr, (stream[:20], done.returncode, done.stderr)
    result = folder / "kept.y4m"
    result.write_bytes(b"an earlier film")
    done = subprocess.run([upscale, "video", "-i", "-", "-o", result, "--server", address], input=b"", capture_output=True, timeout=300)
    assert done.returncode != 0 and result.read_bytes() == b"an earlier film", result.read_bytes()


def ffmpeg_keeps_sound_and_length(upscale: str, server, folder: pathlib.Path) -> None:
    address = "{}:{}".format(*server.grpc)
    source, result = folder / "in.mkv", folder / "out.mkv"
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=96x54:rate=24:duration=1", "-f", "lavfi", "-i",
        "sine=frequency=440:duration=1", "-c:v", "ffv1", "-pix_fmt", "yuv420p", "-c:a", "flac", source)
    run("sh", "-c", 'ffmpeg -v error -i "$1" -f yuv4mpegpipe - | "$2" video --quiet -i - -o - --server "$3" | '
        "ffmpeg -v error -i - -i \"$1\" -map 0:v -map '1:a?' -c:v ffv1 -c:a copy \"$4\"", "sh", source, upscale, address, result)

    def probe(path, entries):
        return run("ffprobe", "-v", "error", "-count_frames", "-show_entries", entries, "-of", "default=nw=1:nk=1", path)
    assert probe(result, "stream=nb_read_frames,width,height,r_frame_rate").split()[:4] == [b"192", b"108", b"24/1", b"24"], \
        probe(result, "stream=nb_read_frames,width,height,r_frame_rate")
    sums = [run("ffmpeg", "-v", "error", "-i", path, "-map", "0:a", "-f", "md5", "-") for path in (source, result)]
    assert sums[0] == sums[1], sums


def main(upscaled: str, upscale: str) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        servers = [harness.Server(upscaled), harness.Server(upscaled)]
        frames_are_single_images(upscale, servers, folder)
        y4m_keeps_its_kind(upscale, servers[0])
        wrong_input_is_named(upscale, servers[0], folder)
        if shutil.which("ffmpeg") and shutil.which("ffprobe"):
            ffmpeg_keeps_sound_and_length(upscale, servers[0], folder)
        else:
            print("no ffmpeg here: a film with sound was not tried")
        for server in servers:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
