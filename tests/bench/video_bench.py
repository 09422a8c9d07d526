#!/usr/bin/python3
"""Frames of films through a published network, next to PyTorch with the same weights: video_bench.py BUILD_DIR

    video_bench.py build/release --size 480x270 --frames 20 --rounds 2

Runs `upscale-bench video` and PyTorch in turns, each with all threads, in wall time. PyTorch computes every frame whole,
as programs around it do. Prints a table of Markdown. Exits with 77 where there is no PyTorch.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "engine/model"))
import published_weights as weights  # noqa: E402  exits where there is no PyTorch
import torch  # noqa: E402


def time_ours(program, file, size, frames):
    """Seconds a frame of single images and of frames, by film."""
    done = subprocess.run([program, "video", "--model", file, "--size", size, "--frames", str(frames), "--json"], stdout=subprocess.PIPE,
                          text=True, check=True)
    return {row["film"]: (row["images_seconds"] / frames, row["frames_seconds"] / frames) for row in json.loads(done.stdout)}


def time_torch(model, size, frames):
    width, height = map(int, size.split("x"))
    frame = torch.rand(1, 3, height, width)
    with torch.no_grad():
        begin = time.monotonic()
        for _ in range(frames):
            model(frame)
        return (time.monotonic() - begin) / frames


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="folder of a release build")
    parser.add_argument("--size", default="480x270", help="of a frame")
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(os.cpu_count())
    torch.manual_seed(1)
    model = weights.Srvgg(2, convs=8).eval()  # 2x-AnimeJaNai UltraCompact
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "compact.pth"
        torch.save({"params_ema": model.published()}, file)
        time_torch(model, arguments.size, 1)
        for _ in range(arguments.rounds):
            ours.append(time_ours(pathlib.Path(arguments.build) / "bin/upscale-bench", file, arguments.size, arguments.frames))
            theirs.append(time_torch(model, arguments.size, arguments.frames))
    best = min(theirs)
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, UltraCompact x2, frames of {arguments.size}; load {os.getloadavg()[0]:.1f}\n")
    print("| film | single images, frames/s | frames, frames/s | PyTorch, frames/s | frames / PyTorch |\n| --- | --- | --- | --- | --- |")
    for film in ours[0]:
        images = min(row[film][0] for row in ours)
        frames = min(row[film][1] for row in ours)
        print(f"| {film} | {1 / images:.2f} | {1 / frames:.2f} | {1 / best:.2f} | {best / frames:.2f} |")


if __name__ == "__main__":
    main()
