#!/usr/bin/env python3
"""Jobs of films: film_jobs_test.py UPSCALED UPSCALE WORKER

A film is cut into parts by `upscale submit --video`. Workers are killed, and the joined film has the frames of
`upscale video`, the sound and the times of the source. Exits with 77 where ffmpeg is missing."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/attack")]
import harness

SKIPPED = 77
FRAMES, PART = 45, 7
HIDDEN_S = 0.52


def run(*command, **options) -> bytes:
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False, timeout=300, **options)
    assert done.returncode == 0, (command, done.returncode, done.stderr[-2000:])
    return done.stdout


def refused(*command, word: str, **options) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False, timeout=300, text=True, **options)
    assert done.returncode != 0 and word in done.stderr, (command, done.returncode, done.stderr)


def make_film(path: pathlib.Path, rate: str, encoder: tuple) -> None:
    run("ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=size=64x46:rate={rate}", "-f", "lavfi", "-i",
        "sine=frequency=440", "-frames:v", FRAMES, "-t", 3, *encoder, "-pix_fmt", "yuv420p", "-c:a", "flac", "-strict", "-2", path)


def pictures(path: pathlib.Path) -> bytes:
    return run("ffmpeg", "-nostdin", "-v", "error", "-i", path, "-map", "0:v", "-fps_mode", "passthrough", "-f", "rawvideo", "-")


def sound(path: pathlib.Path) -> bytes:
    return run("ffmpeg", "-nostdin", "-v", "error", "-i", path, "-map", "0:a", "-f", "md5", "-")


def times(path: pathlib.Path) -> list:
    told = run("ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path)
    return told.decode().replace(",", "").split()  # side data leaves a comma


def runs_ffmpeg(worker: subprocess.Popen) -> bool:
    tasks = pathlib.Path(f"/proc/{worker.pid}/task")
    try:
        children = [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]
        return any(pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "ffmpeg" for pid in children)
    except (FileNotFoundError, ProcessLookupError):  # one ended meanwhile
        return False


def stop_at_work(worker: subprocess.Popen) -> bool:
    """Stops the worker with a part at work: its ffmpeg has begun, and no stopped worker can put the part into its place."""
    while worker.poll() is None:
        worker.send_signal(signal.SIGSTOP)
        if runs_ffmpeg(worker):
            return True
        worker.send_signal(signal.SIGCONT)
        time.sleep(0.01)
    return False


def streams(path: pathlib.Path, entries: str, kind: str = "v") -> list:
    told = run("ffprobe", "-v", "error", "-select_streams", kind, "-show_entries", f"stream={entries}", "-of", "csv=p=0", path)
    return told.decode().split()


class Films:
    def __init__(self, programs: list, folder: pathlib.Path):
        self.upscaled, self.upscale, self.worker = programs
        self.folder, self.queue = folder, folder / "queue"
        self.server = harness.Server(self.upscaled)
        self.address = "{}:{}".format(*self.server.grpc)

    def submit(self, source: pathlib.Path, output: pathlib.Path, codec: str = "ffv1") -> None:
        run(self.upscale, "submit", "--video", "-i", source, "-o", output, "--frames-per-job", PART, "--codec", codec, "--queue", self.queue)

    def start_worker(self, queue: pathlib.Path | None = None, env: dict | None = None) -> subprocess.Popen:
        command = [self.worker, "--queue", queue or self.queue, "--server", self.address, "--lease", "1", "--max-deliveries", "30", "--until-empty"]
        return subprocess.Popen(command, preexec_fn=harness.die_with_parent, stderr=subprocess.DEVNULL, env=env)

    def work(self, kills: int) -> None:
        """Two workers until the queue is empty; `kills` times one is killed that has a part at work."""
        workers = [self.start_worker() for _ in range(2)]
        for number in range(kills):
            victim = workers[number % 2]
            assert stop_at_work(victim), f"only {number} of {kills} workers had a part at work"
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            workers[number % 2] = self.start_worker()
        for worker in workers:
            assert worker.wait(300) == 0, worker.returncode

    def expected(self, source: pathlib.Path) -> bytes:
        """The frames, as the pipes of `upscale video` give them."""
        script = 'ffmpeg -nostdin -v error -i "$1" -fps_mode passthrough -f yuv4mpegpipe - | "$2" video --quiet -i - -o - --matrix 601 --server "$3"'
        return run("sh", "-c", script + " | ffmpeg -v error -i - -f rawvideo -", "sh", source, self.upscale, self.address)

    def check(self, source: pathlib.Path, result: pathlib.Path) -> None:
        assert pictures(result) == self.expected(source), result
        assert sound(result) == sound(source), result
        assert times(result) == times(source) and len(times(source)) == FRAMES, (times(result), times(source))
        assert not list(result.parent.glob("*.parts")), list(result.parent.iterdir())


def killed_workers_lose_nothing(films: Films) -> None:
    for name, rate, encoder, kills in (("film.mkv", "24000/1001", ("-c:v", "ffv1"), 4),
                                       # Frames with later ones behind them, and key frames far apart.
                                       ("film.mp4", "25", ("-c:v", "libx264", "-g", "20", "-bf", "3"), 0)):
        source, result = films.folder / name, films.folder / "results" / name.replace("mp4", "mkv")
        make_film(source, rate, encoder)
        films.submit(source, result)
        films.work(kills)
        films.check(source, result)


def two_workers_join_at_once(films: Films) -> None:
    """Two queues have the same parts, and neither worker's ffmpeg joins before the other's does."""
    source, result = films.folder / "film.mkv", films.folder / "results" / "twice.mkv"
    programs, barrier, twin = (films.folder / name for name in ("programs", "barrier", "twin"))
    programs.mkdir()
    barrier.mkdir()
    (programs / "ffmpeg").write_text(f"""#!/bin/sh
case "$*" in *concat*)
  touch "{barrier}/$$"
  for tries in $(seq 600); do [ "$(ls "{barrier}" | wc -l)" -ge 2 ] && break; sleep 0.1; done;;
esac
exec {shutil.which("ffmpeg")} "$@"
""")
    (programs / "ffmpeg").chmod(0o755)
    films.submit(source, result)
    shutil.copytree(films.queue, twin)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    workers = [films.start_worker(queue, env) for queue in (films.queue, twin)]
    for worker in workers:
        assert worker.wait(300) == 0, worker.returncode
    assert len(list(barrier.iterdir())) >= 2, list(barrier.iterdir())
    for queue in (films.queue, twin):
        told = run(films.upscale, "jobs", "--queue", queue, "--json").decode()
        assert '"failed"' not in told, told
    films.check(source, result)


def films_cut_by_an_edit_list_are_whole(films: Films) -> None:
    """Frames that an edit list hides are decoded and not shown; those that it shows come once each."""
    whole, cut, result = films.folder / "film.mp4", films.folder / "cut.mp4", films.folder / "results" / "cut.mkv"
    run("ffmpeg", "-nostdin", "-v", "error", "-ss", HIDDEN_S, "-i", whole, "-c", "copy", "-strict", "-2", cut)
    packets = run("ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "packet=flags", "-of", "csv=p=0", cut).decode().split()
    shown = sum("D" not in flags for flags in packets)
    assert 0 < shown < len(packets), packets
    films.submit(cut, result)
    films.work(0)
    assert pictures(result) == films.expected(cut), result
    # Matroska has no edit lists: the hidden sound is heard, and all comes as much later.
    for path in (cut, result):
        assert len(times(path)) == shown, times(path)
        (heard,) = run("ffprobe", "-v", "error", "-select_streams", "a", "-read_intervals", "%+#1", "-show_entries", "packet=pts_time", "-of",
                       "csv=p=0", path).decode().split()
        assert abs(float(times(path)[0]) - float(heard.strip(",")) - HIDDEN_S) < 0.002, (path, times(path)[0], heard)
        assert all(abs(float(time) - float(times(path)[0]) - number / 25) < 0.002 for number, time in enumerate(times(path))), times(path)


def texts(path: pathlib.Path) -> list:
    """The words of all subtitles."""
    return [run("ffmpeg", "-nostdin", "-v", "error", "-i", path, "-map", f"0:s:{number}", "-f", "srt", "-").decode().split("\n")[2]
            for number in range(len(streams(path, "index", "s")))]


def subtitles_fit_their_container(films: Films) -> None:
    """Texts of every kind go into every container; the submitter is told of those that become others."""
    words = films.folder / "words.srt"
    words.write_text("1\n00:00:00,100 --> 00:00:00,900\nHello\n\n")
    film = films.folder / "film.mkv"
    for kind, ending, codecs in (("mkv", "mkv", ("subrip", "ass", "webvtt")), ("mkv", "mp4", ("mov_text",) * 3), ("mkv", "mov", ("mov_text",) * 3),
                                 ("mp4", "mkv", ("subrip",)), ("mp4", "mp4", ("mov_text",))):
        source = films.folder / f"spoken.{kind}"
        kinds = ("srt", "ass", "webvtt") if kind == "mkv" else ("mov_text",)
        codec = [option for number, name in enumerate(kinds) for option in (f"-c:s:{number}", name)]
        video = ("-c:v", "copy") if kind == "mkv" else ("-c:v", "libx264")
        run("ffmpeg", "-nostdin", "-v", "error", "-y", "-i", film, "-i", words, "-map", "0:v", *(("-map", "1:s") * len(kinds)), *video, *codec, source)
        result = films.folder / "results" / f"spoken-{kind}.{ending}"
        done = subprocess.run([films.upscale, "submit", "--video", "-i", source, "-o", result, "--queue", films.queue], capture_output=True, text=True,
                              timeout=300)
        assert done.returncode == 0, done.stderr
        assert ("becomes" in done.stderr) == (kind != ending), done.stderr
        films.work(0)
        assert streams(result, "codec_name", "s") == list(codecs), (result, streams(result, "codec_name", "s"))
        assert texts(result) == ["Hello"] * len(codecs), (result, texts(result))


def colours_of_the_film_are_the_results(films: Films) -> None:
    """Matrix, primaries, transfer and range, for each codec; those of a film that does not say its matrix are by its own height."""
    entries = "color_range,color_space,color_transfer,color_primaries"
    hdr = ("-pix_fmt", "yuv420p10le", "-color_range", "tv", "-colorspace", "bt2020nc", "-color_primaries", "bt2020", "-color_trc", "smpte2084")
    for name, codec, ending, flags, told in (("pq", "h265", "mkv", hdr, "tv,bt2020nc,smpte2084,bt2020"), ("pq", "ffv1", "mkv", hdr, "tv,bt2020nc,smpte2084,bt2020"),
                                             ("pq", "h264", "mp4", hdr, "tv,bt2020nc,smpte2084,bt2020"),
                                             ("plain", "h264", "mov", (), "smpte170m"), ("plain", "ffv1", "mkv", (), "smpte170m")):
        source, result = films.folder / f"{name}.mkv", films.folder / "results" / f"{name}-{codec}.{ending}"
        run("ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=64x46:rate=25", "-frames:v", "5", "-c:v", "ffv1", *flags, source)
        films.submit(source, result, codec)
        films.work(0)
        assert told in streams(result, entries)[0], (result, streams(result, entries))


def odd_sides_lose_a_row_or_a_column(films: Films) -> None:
    """Encoders with halved chroma have even sides; the others keep all. The submitter is told."""
    source = films.folder / "odd.mkv"
    run("ffmpeg", "-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=66x46:rate=25", "-frames:v", "5", "-c:v", "ffv1", "-pix_fmt", "yuv420p", source)
    for codec, told in (("h264", "98,68"), ("h265", "98,68"), ("ffv1", "99,69")):
        result = films.folder / "results" / f"odd-{codec}.mkv"
        command = (films.upscale, "submit", "--video", "-i", source, "-o", result, "-s", "1.5", "--codec", codec, "--queue", films.queue)
        done = subprocess.run([str(part) for part in command], capture_output=True, check=True, timeout=300, text=True)
        assert ("loses its last row or column" in done.stderr) == (codec != "ffv1"), (codec, done.stderr)
        films.work(0)
        assert streams(result, "width,height") == [told], (codec, streams(result, "width,height"))


def refused_before_anything_is_computed(films: Films) -> None:
    """Results that could not be joined, and films that could not be read."""
    film, queue = films.folder / "film.mkv", films.folder / "never"
    folder = films.folder / "folder.mkv"
    folder.mkdir()
    wave, striped, interlaced = (films.folder / name for name in ("wave.mkv", "rgb.mkv", "interlaced.mkv"))
    make = ("ffmpeg", "-nostdin", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x46:rate=25", "-frames:v", "5")
    run(*make[:-2], "-f", "lavfi", "-i", "sine", "-t", "0.2", "-c:v", "ffv1", "-c:a", "pcm_s16le", wave)
    run(*make, "-c:v", "ffv1", "-pix_fmt", "gbrp", striped)
    run(*make, "-vf", "setfield=tff", "-c:v", "ffv1", "-field_order", "tt", interlaced)
    for source, output, flags, word in (
            (film, folder, (), "is a folder"), (film, "results/", (), "is a folder"), (film, "film-2x", (), "ends in nothing"),
            (film, "film-2x.avi", (), ".avi"), (film, "film-2x.webm", (), ".webm"), (film, "film-2x.mp4", ("--codec", "ffv1"), "the codec ffv1"),
            (wave, "wave-2x.mp4", (), "pcm_s16le"), (striped, "rgb-2x.mkv", (), "pixels are bgr0"), (interlaced, "still-2x.mkv", (), "interlaced")):
        refused(films.upscale, "submit", "--video", "-i", source, "-o", films.folder / output if output != "results/" else f"{films.folder}/results/",
                "--queue", queue, *flags, word=word)
    assert not list(films.folder.glob("*.parts")) and not queue.exists(), list(films.folder.iterdir())


def other_sources_are_refused(films: Films) -> None:
    command = [films.upscale, "submit", "--video", "--queue", films.queue, "-o", films.folder / "refused.mkv", "-i"]
    film = films.folder / "film.mkv"
    uneven = films.folder / "uneven.mkv"
    run("ffmpeg", "-nostdin", "-v", "error", "-i", film, "-vf", "select='not(eq(n,5))'", "-fps_mode", "passthrough", "-c:v", "ffv1", "-an", uneven)
    refused(*command, uneven, word="make the rate even")
    (films.folder / "text.mkv").write_text("no film")
    refused(*command, films.folder / "text.mkv", word="ffprobe")
    refused(*command, film, film, word="one file")
    refused(*command, "https://example.org/film.mkv", word="one file")
    refused(*command, film, "--noise", "auto", word="frames of a film")
    refused(*command, film, "--format", "png", word="--format")
    refused(*command, film, "--codec", "mpeg2", word="mpeg2")
    refused(*command, film, word="ffprobe is not installed", env={**os.environ, "PATH": str(films.folder)})
    assert not list(films.folder.glob("refused*")), list(films.folder.iterdir())


def a_worker_without_the_folder_says_so(films: Films) -> None:
    output, queue = films.folder / "elsewhere.mkv", films.folder / "elsewhere"
    run(films.upscale, "submit", "--video", "-i", films.folder / "film.mkv", "-o", output, "--queue", queue)
    (parts,) = films.folder.glob("elsewhere.mkv.*.parts")
    parts.rmdir()
    run(films.worker, "--queue", queue, "--server", films.address, "--until-empty", "--max-deliveries", "1")
    told = run(films.upscale, "jobs", "--queue", queue, "--json").decode()
    assert '"failed"' in told and "folder of its parts" in told, told
    link = films.folder / "link.mkv"
    link.symlink_to(films.folder / "film.mkv")
    refused(films.upscale, "submit", "--video", "-i", films.folder / "film.mkv", "-o", link, "--queue", queue, word="is a link")


def a_playlist_is_no_film(films: Films) -> None:
    """A file that names other files is not followed, and the job fails with ffmpeg's words."""
    playlist, queue = films.folder / "list.mkv", films.folder / "lists"
    film = films.folder / "film.mkv"
    shutil.copy(film, playlist)
    run(films.upscale, "submit", "--video", "-i", playlist, "-o", films.folder / "listed.mkv", "--queue", queue)
    playlist.write_text(f"ffconcat version 1.0\nfile {film}\n")
    run(films.worker, "--queue", queue, "--server", films.address, "--until-empty")
    told = run(films.upscale, "jobs", "--queue", queue, "--json").decode()
    assert '"failed"' in told and "ffmpeg" in told, told


def main(*programs: str) -> int:
    if not (shutil.which("ffmpeg") and shutil.which("ffprobe")):
        print("SKIPPED: no ffmpeg")
        return SKIPPED
    with tempfile.TemporaryDirectory() as name:
        films = Films(list(programs), pathlib.Path(name))
        try:
            killed_workers_lose_nothing(films)
            two_workers_join_at_once(films)
            films_cut_by_an_edit_list_are_whole(films)
            subtitles_fit_their_container(films)
            colours_of_the_film_are_the_results(films)
            odd_sides_lose_a_row_or_a_column(films)
            refused_before_anything_is_computed(films)
            other_sources_are_refused(films)
            a_worker_without_the_folder_says_so(films)
            a_playlist_is_no_film(films)
        finally:
            films.server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
