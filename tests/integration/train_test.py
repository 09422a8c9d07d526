#!/usr/bin/env python3
"""The trainer's command line, and a server of what comes out: train_test.py UPSCALE-TRAIN UPSCALED"""
import ctypes
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/attack")]
import harness
import messages

SIDE_PX = 64
STEPS = 600  # of some milliseconds: a second for the signal to come in
OPTIONS = [f"--steps={STEPS}", "--batch=2", "--patch=12", "--threads=2", "--rate=1e-3", "--seed=3"]


def drawing(period_px: int) -> bytes:
    """A PNG of slanted stripes, of a colour each."""
    def row(y: int) -> bytes:
        return b"".join(bytes((255 * ((x + y * k // 2) // period_px % 2) for k in (1, 2, 3))) for x in range(SIDE_PX))

    return messages.png(SIDE_PX, SIDE_PX, zlib.compress(b"".join(b"\0" + row(y) for y in range(SIDE_PX))))


class Trainer:
    def __init__(self, binary: str, folder: pathlib.Path) -> None:
        self.binary, self.folder = binary, folder
        self.images, self.models = folder / "images", folder / "models"
        self.images.mkdir()
        for period_px in range(3, 9):
            (self.images / f"{period_px}.png").write_bytes(drawing(period_px))

    def command(self, out: str | pathlib.Path, *options: str, images: pathlib.Path | None = None, start="fast-2x") -> list[str]:
        return [self.binary, f"--images={images or self.images}", f"--out={self.models / out}", f"--start={start}", *OPTIONS,
                *options]

    def train(self, name: str, *options: str) -> str:
        done = subprocess.run(self.command(name, *options), capture_output=True, text=True)
        assert done.returncode == 0, done
        return done.stdout

    def expect_refused(self, command: list[str], code: int, *parts: str, **how) -> None:
        done = subprocess.run(command, capture_output=True, text=True, **how)
        assert done.returncode == code and all(part in done.stderr for part in parts), (parts, done)

    def read(self, name: str, file: str) -> bytes:
        return (self.models / name / file).read_bytes()


def check_whole(trainer: Trainer) -> None:
    log = trainer.folder / "log.jsonl"
    said = trainer.train("whole", f"--log={log}")
    assert "5 images to learn from, 1 held out: Lanczos " in said, said
    assert len(re.findall(rf"^step \d+ of {STEPS}  loss .* over Lanczos, .* steps/s  .* left$", said, re.M)) == 30, said
    gain = float(re.search(r"held-out images, ([+-][\d.]+) over fast-2x$", said, re.M)[1])
    assert gain > 0.5, said
    reports = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(reports) == 30 and reports[-1]["step"] == reports[-1]["total_steps"] == STEPS, reports
    assert reports[-1]["best_psnr_db"] == max(report["best_psnr_db"] for report in reports) > reports[0]["start_psnr_db"], reports
    card = trainer.read("whole", "CARD.md").decode()
    assert f"| steps | {STEPS} |" in card and "seed 3" in card and "images: 5 trained on, 1 held out" in card, card


def check_interrupted(trainer: Trainer) -> None:
    """Ctrl-C keeps the best so far, and --resume ends with the bytes of check_whole."""
    for _ in range(5):  # on a busy machine the signal may come after the last step
        shutil.rmtree(trainer.models / "parts", ignore_errors=True)
        process = subprocess.Popen(trainer.command("parts"), stdout=subprocess.PIPE, text=True)
        said = ""
        while not said.startswith("step "):
            said = process.stdout.readline()
            assert said, "it ended before its first report"
        process.send_signal(signal.SIGINT)
        said += process.communicate()[0]
        assert process.returncode == 0, said
        if "; interrupted, --resume goes on" in said:
            break
    assert "; interrupted, --resume goes on" in said, said
    steps = int(re.search(r"\| steps \| (\d+) \|", trainer.read("parts", "CARD.md").decode())[1])
    assert STEPS // 30 <= steps < STEPS, steps
    gain = float(re.search(r"held-out images, ([+-][\d.]+) over fast-2x", said)[1])
    assert gain >= 0, said
    trainer.expect_refused(trainer.command("parts"), 1, "checkpoint: is there; resume it or train elsewhere")
    trainer.expect_refused(trainer.command("parts", "--resume", "--loss=l1"), 1, "was made with ", "loss 1 L1")
    trainer.train("parts", "--resume")
    for file in ("model.bin", "model.param", "checkpoint"):
        assert trainer.read("parts", file) == trainer.read("whole", file), file


def check_refusals(trainer: Trainer) -> None:
    few = trainer.folder / "few"
    few.mkdir()
    for i in range(3):
        (few / f"{i}.png").write_bytes(drawing(5))
    trainer.expect_refused(trainer.command("a", images=few), 1, "has 3 images of 24 pixels or more", "training needs 4")
    trainer.expect_refused(trainer.command("a", images=trainer.folder / "none"), 1, "none", "No such file or directory")
    recipe = trainer.folder / "recipe.json"
    recipe.write_text('{"reductions": ["box"]}')
    trainer.expect_refused(trainer.command("a", f"--small={trainer.images}", f"--recipe={recipe}"), 1, "recipe.json: has 'reductions'")
    trainer.expect_refused(trainer.command("a", f"--small={trainer.images}"), 1, "and its small image 64 x 64", "needs 4")
    trainer.expect_refused(trainer.command("a", f"--log={trainer.folder / 'none/log'}"), 1, "none/log: No such file or directory")
    trainer.expect_refused(trainer.command("a", start="best"), 1, "no model 'best', there are: ", "fast-2x, general-2x")
    trainer.expect_refused([trainer.binary, "--start=fast-2x"], 1, "needs --images and --out")
    trainer.expect_refused([trainer.binary, "--batch=0"], 2, "--batch")


def as_bound_by_modes() -> None:
    """Root may go everywhere: without that capability, then."""
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            if ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, capability) != 0:
                raise PermissionError("cannot give up a capability")


def check_no_permission(trainer: Trainer) -> None:
    locked = trainer.folder / "locked"
    locked.mkdir(mode=0o555)
    trainer.expect_refused(trainer.command(locked / "a"), 1, f"cannot create {locked / 'a'}: Permission denied",
                           preexec_fn=as_bound_by_modes)
    locked.chmod(0)
    trainer.expect_refused(trainer.command("a", images=locked), 1, "Permission denied", preexec_fn=as_bound_by_modes)


def check_no_space(trainer: Trainer) -> None:
    """A limit on files' sizes stands for a full disk: both fail while the checkpoint is written."""
    trainer.expect_refused(trainer.command("full"), 1, "checkpoint", "File too large", restore_signals=False,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    assert not list((trainer.models / "full").iterdir()), "something is left"


def check_served(trainer: Trainer, upscaled: str) -> None:
    server = harness.Server(upscaled, [f"--model-repository={trainer.models}"])
    try:
        connection = http.client.HTTPConnection(*server.http, timeout=60)
        results = []
        for model in ("whole", "fast-2x"):
            connection.request("POST", f"/v1/upscale?model={model}&format=png", drawing(7))
            answer = connection.getresponse()
            results.append(answer.read())
            assert answer.status == 200, results[-1]
            assert struct.unpack(">II", results[-1][16:24]) == (2 * SIDE_PX, 2 * SIDE_PX)
        assert results[0] != results[1], "it learnt nothing"
    finally:
        server.process.terminate()
        server.process.wait()


def main() -> None:
    binary, upscaled = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        trainer = Trainer(binary, pathlib.Path(name))
        check_whole(trainer)
        check_interrupted(trainer)
        check_refusals(trainer)
        check_no_permission(trainer)
        check_no_space(trainer)
        check_served(trainer, upscaled)


if __name__ == "__main__":
    main()
