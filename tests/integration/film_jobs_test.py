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
    return run("ffmpeg", "-nostdin", "-v", "error", "-i", path, "-map", "0:v", "-f", "rawvideo", "-")


def sound(path: pathlib.Path) -> bytes:
    return run("ffmpeg", "-nostdin", "-v", "error", "-i", path, "-map", "0:a", "-f", "md5", "-")


def times(path: pathlib.Path) -> list:
    told = run("ffprobe", "-v", "error", "-select_streams", "v", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path)
    return told.decode().replace(",", "").split()  # side data leaves a comma


class Films:
    def __init__(self, programs: list, folder: pathlib.Path):
        self.upscaled, self.upscale, self.worker = programs
        self.folder, self.queue = folder, folder / "queue"
        self.server = harness.Server(self.upscaled)
        self.address = "{}:{}".format(*self.server.grpc)

    def submit(self, source: pathlib.Path, output: pathlib.Path, *flags) -> None:
        run(self.upscale, "submit", "--video", "-i", source, "-o", output, "--frames-per-job", PART, "--codec", "ffv1", "--queue", self.queue, *flags)

    def start_worker(self) -> subprocess.Popen:
        command = [self.worker, "--queue", self.queue, "--server", self.address, "--lease", "1", "--max-deliveries", "30", "--until-empty"]
        return subprocess.Popen(command, preexec_fn=harness.die_with_parent, stderr=subprocess.DEVNULL)

    def work(self, kills: int) -> None:
        """Two workers until the queue is empty; `kills` times one is killed while parts are missing."""
        workers = [self.start_worker() for _ in range(2)]
        for number in range(kills):
            time.sleep(0.3)
            victim = workers[number % 2]
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            workers[number % 2] = self.start_worker()
        for worker in workers:
            assert worker.wait(300) == 0, worker.returncode

    def expected(self, source: pathlib.Path) -> bytes:
        """The frames, as the pipes of `upscale video` give them."""
        script = 'ffmpeg -nostdin -v error -i "$1" -f yuv4mpegpipe - | "$2" video --quiet -i - -o - --matrix 601 --server "$3"'
        return run("sh", "-c", script + " | ffmpeg -v error -i - -f rawvideo -", "sh", source, self.upscale, self.address)

    def check(self, source: pathlib.Path, result: pathlib.Path) -> None:
        assert pictures(result) == self.expected(source), result
        assert sound(result) == sound(source), result
        assert times(result) == times(source) and len(times(source)) == FRAMES, (times(result), times(source))
        assert not list(result.parent.glob("*.parts")), list(result.parent.iterdir())


def killed_workers_lose_nothing(films: Films) -> None:
    for name, rate, encoder, kills in (("film.mkv", "24000/1001", ("-c:v", "ffv1"), 4),
                                       # Frames that depend on later ones, and key frames far apart.
                                       ("film.mp4", "25", ("-c:v", "libx264", "-g", "20", "-bf", "3"), 0)):
        source, result = films.folder / name, films.folder / "results" / name.replace("mp4", "mkv")
        make_film(source, rate, encoder)
        films.submit(source, result)
        films.work(kills)
        films.check(source, result)


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
            other_sources_are_refused(films)
            a_worker_without_the_folder_says_so(films)
            a_playlist_is_no_film(films)
        finally:
            films.server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
