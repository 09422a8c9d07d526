#!/usr/bin/env python3
"""Films through the real command and server: video_test.py UPSCALED UPSCALE

Frames of a film are those of `upscale image`, bit by bit, over two servers of which one is killed; YUV4MPEG2 keeps its
kind; and with ffmpeg, where it is, a film with sound keeps sound, length and rate.
"""
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

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


def moving_ppms(count: int, width: int, height: int) -> list[bytes]:
    """A still background of noise, and a rectangle of other noise that wanders over it."""
    background = random.randbytes(3 * width * height)
    frames = []
    for number in range(count):
        rows = [bytearray(background[3 * width * y:3 * width * (y + 1)]) for y in range(height)]
        for row in rows[5 + number:5 + number + height // 8]:
            row[3 * number:3 * (number + width // 8)] = random.randbytes(3 * (width // 8))
        frames.append(f"P6\n{width} {height}\n255\n".encode() + b"".join(rows))
    return frames


def changed_parts_are_whole_frames(upscale: str, server) -> None:
    command = [upscale, "video", "-i", "-", "-o", "-", "--server", "{}:{}".format(*server.grpc)]
    for model in ("general-2x", "fast-2x"):
        frames = moving_ppms(20, 401, 303)
        done = subprocess.run([*command, "-m", model], input=b"".join(frames), capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert b"% of all pixels did not change" in done.stderr, done.stderr
        alone = b"".join(run(*command, "-m", model, "--quiet", input=frame) for frame in frames)
        assert done.stdout == alone, model


def raw_frames_have_no_header(upscale: str, server) -> None:
    command = [upscale, "video", "-i", "-", "-o", "-", "--quiet", "--server", "{}:{}".format(*server.grpc)]
    planes = [random.randbytes(35 + 2 * 12) for _ in range(3)]
    raw = run(*command, "--raw", "7x5:yuv420p:24000/1001", input=b"".join(planes))
    y4m = run(*command, input=b"YUV4MPEG2 W7 H5 C420mpeg2\n" + b"".join(b"FRAME\n" + frame for frame in planes))
    assert raw == y4m.split(b"\n", 1)[1].replace(b"FRAME\n", b""), len(raw)
    for value, word in (("7x5", b"WxH:FORMAT"), ("7x5:nv12", b"nv12"), ("7x5:gray:fast", b"rate"), ("0x5:gray", b"0x5"),
                        ("7x5:gray:24:1", b"WxH:FORMAT")):
        done = subprocess.run([*command, "--raw", value], input=b"", capture_output=True, timeout=300)
        assert done.returncode == 1 and word in done.stderr, (value, done.returncode, done.stderr)


def an_interrupted_film_goes_on(upscale: str, server, folder: pathlib.Path) -> None:
    film = b"YUV4MPEG2 W40 H30 C444\n" + b"".join(b"FRAME\n" + random.randbytes(3600) for _ in range(30))
    command = [upscale, "video", "-i", "-", "--server", "{}:{}".format(*server.grpc), "--quiet"]
    whole = run(*command, "-o", "-", input=film)
    part, index = folder / "part.y4m", folder / "part.txt"
    first = subprocess.Popen([*command, "-o", part, "--index", index], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    first.stdin.write(film[:len(film) // 2])
    first.stdin.flush()
    while not index.exists() or len(index.read_bytes().splitlines()) < 3:
        time.sleep(0.01)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=300)
    assert first.returncode == 130, first.returncode
    lines = index.read_text().splitlines()
    assert [line.split()[0] for line in lines] == [str(number) for number in range(len(lines))], lines
    begun = part.read_bytes()
    assert len(begun) == int(lines[-1].split()[1]) and whole.startswith(begun), (len(begun), lines[-1])
    rest = run(*command, "-o", "-", "--resume-at", len(lines), input=film)
    assert begun + rest.split(b"\n", 1)[1] == whole, len(rest)


def feed(process, data: bytes) -> threading.Thread:
    def write() -> None:
        process.stdin.write(data)
        process.stdin.close()
    thread = threading.Thread(target=write)
    thread.start()
    return thread


def a_killed_server_loses_no_frame(upscaled: str, upscale: str, server) -> None:
    """One of two servers is killed with frames in flight: none is lost or doubled, and all come in order."""
    side, frames = 64, 90
    film = random.randbytes(side * side * frames)
    command = [upscale, "video", "-i", "-", "-o", "-", "--quiet", "--raw", f"{side}x{side}:gray", "--server"]
    address = "{}:{}".format(*server.grpc)
    whole = run(*command, address, input=film)
    victim = harness.Server(upscaled)
    process = subprocess.Popen([*command, "{}:{},{}".format(*victim.grpc, address)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    feeder = feed(process, film)
    result_bytes = len(whole) // frames
    begun = process.stdout.read(20 * result_bytes)
    served = sum(value for name, value in victim.metrics().items() if name.startswith("upscaled_requests_total"))
    victim.process.kill()
    rest = process.stdout.read()
    feeder.join()
    errors = process.stderr.read()
    assert process.wait(300) == 0, errors
    assert begun + rest == whole, (len(begun), len(rest), len(whole))
    assert served > 0, served
    victim.close()


def a_stalled_reader_stops_the_writer(upscale: str, server) -> None:
    """Frames are accepted up to the window, those in the pipes, and one in the hands of each end."""
    side, frames, ahead = 256, 60, 4
    film = random.randbytes(side * side * frames)
    command = [upscale, "video", "-i", "-", "-o", "-", "--quiet", "--raw", f"{side}x{side}:gray", "--server", "{}:{}".format(*server.grpc)]
    process = subprocess.Popen([*command, "--frames-ahead", str(ahead)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.set_blocking(process.stdin.fileno(), False)
    accepted, last = 0, time.monotonic()
    while time.monotonic() - last < 2 and accepted < len(film):
        try:
            accepted += os.write(process.stdin.fileno(), film[accepted:accepted + 65536])
            last = time.monotonic()
        except BlockingIOError:
            time.sleep(0.02)
    assert accepted <= (2 * ahead + 4) * side * side, accepted / side / side
    os.set_blocking(process.stdin.fileno(), True)
    feeder = feed(process, film[accepted:])
    told = process.stdout.read()
    feeder.join()
    assert process.wait(300) == 0
    assert told == run(*command, input=film), len(told)


def resident_bytes(pid: int) -> int:
    return int(re.search(r"^VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]) << 10


def memory_is_flat(upscale: str, server) -> None:
    """Over 5,000 frames of noise, which go by themselves, and of a still picture with a pixel of noise, which go together."""
    side, frames, warm = 16, 5000, 1000
    still = random.randbytes(side * side - 1)
    command = [upscale, "video", "-i", "-", "-o", "-", "--quiet", "--raw", f"{side}x{side}:gray", "--server", "{}:{}".format(*server.grpc)]
    for film in (random.randbytes(side * side * frames), b"".join(still + random.randbytes(1) for _ in range(frames))):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        feeder = feed(process, film)
        sizes = []
        result_bytes = 4 * side * side
        for count in (warm, frames - warm - 1):
            assert len(process.stdout.read(count * result_bytes)) == count * result_bytes
            sizes.append((resident_bytes(process.pid), server.status("VmRSS")))
        assert len(process.stdout.read()) == result_bytes
        feeder.join()
        assert process.wait(300) == 0
        print("resident bytes of the command and the server:", sizes)
        assert all(after - before <= 16 << 20 for before, after in zip(*sizes)), sizes


def options_of_no_use_are_named(upscale: str, server) -> None:
    command = [upscale, "video", "-i", "-", "-o", "-", "--server", "{}:{}".format(*server.grpc)]
    png = messages.png(9, 9)
    for flags, word in ((["--noise", "auto"], b"frames of a film"), (["--chroma", "resample"], b"YUV4MPEG2"), (["--hold-noise", "2"], b"YUV4MPEG2"),
                        (["--hold-noise", "65"], b"64")):
        done = subprocess.run([*command, *flags], input=png, capture_output=True, timeout=300)
        assert done.returncode != 0 and word in done.stderr, (flags, done.returncode, done.stderr)


def chroma_is_resampled_beside_luma(upscale: str, server) -> None:
    """Luma is that of a gray film; chroma of one value stays so."""
    command = [upscale, "video", "-i", "-", "-o", "-", "--quiet", "--server", "{}:{}".format(*server.grpc)]
    lumas = [random.randbytes(35) for _ in range(3)]
    film = b"YUV4MPEG2 W7 H5 C420jpeg\n" + b"".join(b"FRAME\n" + luma + 12 * b"\x40" + 12 * b"\xb0" for luma in lumas)
    told = run(*command, "--chroma", "resample", input=film).split(b"FRAME\n")[1:]
    gray = run(*command, input=b"YUV4MPEG2 W7 H5 Cmono\n" + b"".join(b"FRAME\n" + luma for luma in lumas)).split(b"FRAME\n")[1:]
    assert told == [luma + 35 * b"\x40" + 35 * b"\xb0" for luma in gray], [len(frame) for frame in told]


def wrong_input_is_named(upscale: str, server, folder: pathlib.Path) -> None:
    address = "{}:{}".format(*server.grpc)
    for stream, word in ((b"", b"no frames"), (b"RIFF....AVI LIST", b"ffmpeg"), (b"YUV4MPEG2 W4 H4 It\n", b"interlaced"),
                         (messages.png(9, 9)[:-5], b"within frame 0")):
        done = subprocess.run([upscale, "video", "-i", "-", "-o", "-", "--server", address], input=stream, capture_output=True,
                              timeout=300)
        assert done.returncode == 5 and word in done.stderr and b"right port" not in done.stderr, (stream[:20], done.returncode, done.stderr)
    result = folder / "kept.y4m"
    result.write_bytes(b"an earlier film")
    done = subprocess.run([upscale, "video", "-i", "-", "-o", result, "--server", address], input=b"", capture_output=True, timeout=300)
    assert done.returncode != 0 and result.read_bytes() == b"an earlier film", result.read_bytes()


def places_stay_apart(upscale: str, server, folder: pathlib.Path) -> None:
    """A film, its index and its source do not replace each other; pipes and devices stay what they are."""
    source, link, hard = folder / "apart.y4m", folder / "apart-link.y4m", folder / "apart-hard.y4m"
    film = b"YUV4MPEG2 W8 H8 C444\n" + 3 * (b"FRAME\n" + random.randbytes(192))
    source.write_bytes(film)
    link.symlink_to(source)
    hard.hardlink_to(source)
    command = [upscale, "video", "--quiet", "--server", "{}:{}".format(*server.grpc)]

    def refused(word: bytes, *flags, stdin=subprocess.DEVNULL) -> None:
        done = subprocess.run([*command, *map(str, flags)], stdin=stdin, capture_output=True, timeout=300)
        assert done.returncode == 1 and word in done.stderr, (flags, done.returncode, done.stderr)
        assert source.read_bytes() == film, flags

    for same in (source, link, hard):
        refused(b"input and output are the same", "-i", source, "-o", same)
        refused(b"input and index are the same", "-i", source, "-o", folder / "new.y4m", "--index", same)
        with open(source, "rb") as stdin:
            refused(b"input and output are the same", "-i", "-", "-o", same, stdin=stdin)
    refused(b"output and index are the same", "-i", source, "-o", folder / "new.y4m", "--index", f"{folder}/./new.y4m")
    refused(b"pipe them into ffmpeg", "-i", source, "-o", folder / "new.MP4")
    assert not (folder / "new.y4m").exists()

    whole = run(*command, "-i", source, "-o", "-")
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
    run(*command, "-i", source, "-o", pipe)
    assert reader.communicate(timeout=300)[0] == whole and pipe.is_fifo()


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
    for stream in ("0:a", "0:v"):
        sums = [run("ffmpeg", "-v", "error", "-i", path, "-map", stream, "-f", "md5", "-") for path in (source, result)]
        assert (sums[0] == sums[1]) == (stream == "0:a"), sums
    times = [run("ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path)
             for path in (source, result)]
    assert times[0] == times[1] and len(times[0].split()) == 24, times


def frames_of_ffmpeg_are_single_images(upscale: str, server, folder: pathlib.Path) -> None:
    """A film's frames as PNG, against the same frames as files."""
    address = "{}:{}".format(*server.grpc)
    source, frames, results = folder / "film.mkv", folder / "frames", folder / "results"
    frames.mkdir()
    results.mkdir()
    run("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=97x55:rate=24:duration=1", "-c:v", "ffv1", "-pix_fmt", "yuv420p", source)
    piped = run("sh", "-c", 'ffmpeg -v error -i "$1" -f image2pipe -c:v png - | "$2" video --quiet -i - -o - --server "$3"', "sh", source, upscale,
                address)
    run("ffmpeg", "-v", "error", "-i", source, frames / "%02d.png")
    run(upscale, "image", "-i", frames, "-o", results, "--server", address, "--quiet")
    alone = [path.read_bytes() for path in sorted(results.iterdir())]
    assert split_pngs(piped) == alone and len(alone) == 24, (len(piped), len(alone))


def psnr(first: bytes, second: bytes, sample_bytes: int, most: int) -> float:
    one, other = (memoryview(film).cast("B" if sample_bytes == 1 else "H") for film in (first, second))
    assert len(one) == len(other), (len(one), len(other))
    error = sum((a - b) ** 2 for a, b in zip(one, other)) / len(one)
    return 99 if error == 0 else 10 * math.log10(most * most / error)


def colours_come_back(upscale: str, server, folder: pathlib.Path) -> None:
    """The way to RGB and back without a network keeps 50 dB, and so does zimg's way, to which it is compared."""
    address = "{}:{}".format(*server.grpc)
    zimg = b" zscale " in run("ffmpeg", "-hide_banner", "-filters")
    width, height = 96, 60
    for chroma in ("yuv420p", "yuv422p", "yuv444p"):
        for depth in (8, 10):
            name = chroma if depth == 8 else f"{chroma}{depth}le"
            for matrix, matrix_name in (("601", "170m"), ("709", "709"), ("2020", "2020_ncl")):
                for span in ("limited", "full"):
                    source, back = folder / "source.yuv", folder / "back.yuv"
                    smooth = f"gradients=size={width}x{height}:nb_colors=4:seed=7:rate=1:duration=1"
                    to_yuv = f"zscale=matrix={matrix_name}:range={span},format={name}" if zimg else f"format={name}"
                    run("ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", f"{smooth},format=gbrp,{to_yuv}", "-f", "rawvideo", source)
                    ours = run(upscale, "video", "--quiet", "-i", source, "-o", "-", "-s", "1", "--server", address, "--raw",
                               f"{width}x{height}:{name}", "--matrix", matrix, "--range", span)
                    sample_bytes, most = (1, 255) if depth == 8 else (2, 1023)
                    decibels = psnr(source.read_bytes(), ours, sample_bytes, most)
                    assert decibels >= 50, (name, matrix, span, decibels)
                    if not zimg:
                        continue
                    way = f"matrixin={matrix_name}:rangein={span}:chromalin=left:filter=bicubic"
                    run("ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "rawvideo", "-s", f"{width}x{height}", "-pix_fmt", name, "-i", source,
                        "-vf", f"zscale={way}:matrix=gbr:range=full,format={'gbrp' if depth == 8 else 'gbrp16le'},"
                        f"zscale=matrix={matrix_name}:range={span}:chromal=left:filter=bicubic,format={name}", "-f", "rawvideo", back)
                    decibels = psnr(back.read_bytes(), ours, sample_bytes, most)
                    assert decibels >= 50, (name, matrix, span, "against zimg", decibels)


def sitings_and_mono_match_zimg(upscale: str, server, folder: pathlib.Path) -> None:
    """Each place of chroma that YUV4MPEG2 names, and gray of both ranges, against zimg's way to RGB and back."""
    if b" zscale " not in run("ffmpeg", "-hide_banner", "-filters"):
        print("ffmpeg has no zscale: sitings were not compared with zimg")
        return
    command = [upscale, "video", "--quiet", "-i", "-", "-o", "-", "-s", "1", "--server", "{}:{}".format(*server.grpc)]
    width, height = 96, 60  # zscale takes no odd ones
    smooth = f"gradients=size={width}x{height}:nb_colors=4:seed=9:rate=1:duration=1,format=gbrp"
    cases = [("yuv420p", tag, place, span) for tag, place in (("420jpeg", "center"), ("420mpeg2", "left"), ("420paldv", "topleft"))
             for span in ("limited", "full")] + [("gray", "mono", "left", span) for span in ("limited", "full")]
    for name, tag, place, span in cases:
        source, back = folder / "source.yuv", folder / "back.yuv"
        to_yuv = f"zscale=matrix=170m:range={span}:chromal={place}:filter=bicubic,format={name}"
        if name == "gray":
            to_yuv = f"zscale=matrix=170m:range={span},format=yuv444p,extractplanes=y"
        run("ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", f"{smooth},{to_yuv}", "-f", "rawvideo", source)
        header = f"YUV4MPEG2 W{width} H{height} C{tag} XCOLORRANGE={span.upper()}\nFRAME\n".encode()
        ours = run(*command, input=header + source.read_bytes()).split(b"FRAME\n", 1)[1]
        if name == "gray":
            way = f"zscale=rangein={span}:range=full,format=gray,zscale=rangein=full:range={span},format=gray"
        else:
            way = (f"zscale=matrixin=170m:rangein={span}:chromalin={place}:filter=bicubic:matrix=gbr:range=full,format=gbrp,"
                   f"zscale=matrix=170m:range={span}:chromal={place}:filter=bicubic,format={name}")
        run("ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "rawvideo", "-s", f"{width}x{height}", "-pix_fmt", name, "-i", source, "-vf", way,
            "-f", "rawvideo", back)
        decibels = psnr(back.read_bytes(), ours, 1, 255)
        assert decibels >= 50, (tag, span, "against zimg", decibels)


def main(upscaled: str, upscale: str) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        servers = [harness.Server(upscaled), harness.Server(upscaled)]
        frames_are_single_images(upscale, servers, folder)
        y4m_keeps_its_kind(upscale, servers[0])
        changed_parts_are_whole_frames(upscale, servers[0])
        raw_frames_have_no_header(upscale, servers[0])
        an_interrupted_film_goes_on(upscale, servers[0], folder)
        a_killed_server_loses_no_frame(upscaled, upscale, servers[0])
        a_stalled_reader_stops_the_writer(upscale, servers[0])
        memory_is_flat(upscale, servers[0])
        options_of_no_use_are_named(upscale, servers[0])
        chroma_is_resampled_beside_luma(upscale, servers[0])
        wrong_input_is_named(upscale, servers[0], folder)
        places_stay_apart(upscale, servers[0], folder)
        if shutil.which("ffmpeg") and shutil.which("ffprobe"):
            ffmpeg_keeps_sound_and_length(upscale, servers[0], folder)
            frames_of_ffmpeg_are_single_images(upscale, servers[0], folder)
            colours_come_back(upscale, servers[0], folder)
            sitings_and_mono_match_zimg(upscale, servers[0], folder)
        else:
            print("no ffmpeg here: a film with sound was not tried")
        for server in servers:
            server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
