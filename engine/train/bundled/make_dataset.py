#!/usr/bin/python3
"""Cuts the images to train on and the held-out ones out of the unpacked packages.

usage: make_dataset.py ROOT OUT [--photos FOLDER] [--scale-count 1.0] [--workers 2] [--images 320]

OUT/images/*.png                      squares of so many px, or of a photograph's smaller side, half of them photographs, a
                                      fifth leaves over leaves of their colours
OUT/heldout/{photo,text,flat}/*.png   whole images, never trained on
"""

import argparse
import bz2
import glob
import hashlib
import io
import multiprocessing
import os
import pathlib
import re
import subprocess

import numpy as np
from PIL import Image

import drawing
import sources

MIN_SIDE_PX = 192  # of a square
COUNTS = {"photo": 11000, "text": 6000, "svg": 9000, "icon": 600, "shapes": 3000, "patterns": 1500, "leaves": 3750}
HELDOUT_SVGS = 24
PHOTO_SHARE = 0.6  # of the images but for the leaves; each is drawn equally often


def load_image(path):
    """RGB image of any file used here; transparency is laid on white."""
    if path.endswith("face.dat"):
        pixels = np.frombuffer(bz2.decompress(pathlib.Path(path).read_bytes()), np.uint8)
        return Image.fromarray(pixels.reshape(768, 1024, 3))
    image = Image.open(path)
    if image.mode in ("RGBA", "LA", "P"):
        image = image.convert("RGBA")
        base = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(base, image)
    return image.convert("RGB")


def shrink(image, factor):
    size = (max(1, round(image.width / factor)), max(1, round(image.height / factor)))
    return image if factor == 1 else image.resize(size, Image.LANCZOS)


def render_svg(path, width_px, background):
    """The drawing at `width_px`, or None where the renderer refuses it."""
    command = ["rsvg-convert", "--keep-aspect-ratio", "-w", str(width_px), "-h", str(width_px), "-b", background, path]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=20)
        return Image.open(io.BytesIO(done.stdout)).convert("RGB") if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, OSError):
        return None


def heldout_svg(path):
    """One family of drawings in 64 is held out: names that differ only in digits stand for variants of one drawing."""
    family = re.sub(r"[\d_.-]+", " ", os.path.basename(path)[:-4]).strip()
    return hashlib.sha256(family.encode()).digest()[0] % 64 == 0


def cut(rng, image, side, count, min_detail):
    """Up to `count` squares from random places; mostly flat ones are kept only now and then."""
    if image.width < side or image.height < side:
        canvas = Image.new("RGB", (max(side, image.width), max(side, image.height)), image.getpixel((0, 0)))
        canvas.paste(image, ((canvas.width - image.width) // 2, (canvas.height - image.height) // 2))
        image = canvas
    blocks = []
    for _ in range(count * 6):
        x = int(rng.integers(0, image.width - side + 1))
        y = int(rng.integers(0, image.height - side + 1))
        block = image.crop((x, y, x + side, y + side))
        detail = np.abs(np.diff(np.asarray(block.convert("L"), np.float32), axis=1)).mean()
        if detail < min_detail and rng.random() > 0.08:
            continue
        blocks.append(block)
        if len(blocks) == count:
            break
    return blocks


def job_blocks(rng, kind, what, side):
    """The squares that a job asks for."""
    if kind == "photo":
        path, factor, count = what
        image = shrink(load_image(path), factor)
        return cut(rng, image, max(min(side, *image.size), MIN_SIDE_PX), count, 2.5)
    if kind in ("svg", "icon"):
        path, count = what
        colored = rng.random() < 0.3
        background = "#%02x%02x%02x" % tuple(rng.integers(0, 256, 3)) if colored else "#ffffff"
        low, high = (300, 760) if kind == "svg" else (200, 420)
        image = render_svg(path, int(rng.integers(low, high)), background)
        return [] if image is None else cut(rng, image, side, count, 1.5)
    blocks = []
    for _ in range(what["count"]):
        if kind == "text":
            photo = load_image(str(rng.choice(what["photos"]))) if rng.random() < 0.02 else None
            page = drawing.text_page(rng, what["fonts"], what["cjk"], side * 2, photo)
            blocks += cut(rng, page, side, 4, 1.0)
        elif kind == "patterns":
            blocks.append(drawing.patterns(rng, side))
        else:
            blocks += cut(rng, drawing.shapes(rng, side), side, 1, 0.0)
    return blocks


def write_images(job):
    """Writes a job's squares as PNG files of `folder`; the number of them."""
    (kind, seed, what), side, folder = job
    blocks = job_blocks(np.random.default_rng(seed), kind, what, side)
    for i, block in enumerate(blocks):
        block.save(f"{folder}/{kind}-{seed}-{i}.png", compress_level=1)
    return len(blocks)


def write_leaves(job):
    """Writes a square of leaves in the colours of one of `photos`, which are squares, too."""
    number, photos, side, folder = job
    rng = np.random.default_rng(10_000 + number)
    photo = np.asarray(Image.open(photos[int(rng.integers(len(photos)))]))
    drawing.leaves(rng, side, photo.reshape(-1, 3)).save(f"{folder}/leaves-{number}-0.png", compress_level=1)


def make_images(jobs, leaves, side, folder, workers):
    """The squares of all photographs, of so many other jobs, at random, that they are PHOTO_SHARE of all, and `leaves` more."""
    os.makedirs(folder)  # a new one: leaves take their colours from all photographs in it
    with multiprocessing.Pool(workers) as pool:
        def write(chosen):
            return sum(pool.imap_unordered(write_images, [(job, side, folder) for job in chosen], chunksize=4))

        photos = write([job for job in jobs if job[0] == "photo"])
        others = [job for job in jobs if job[0] != "photo"]
        per_job = {"svg": 3, "icon": 3, "text": 20, "shapes": 20, "patterns": 20}
        wanted, chosen = photos * (1 / PHOTO_SHARE - 1), []
        for i in np.random.default_rng(4).permutation(len(others)):
            if wanted <= 0:
                break
            chosen.append(others[i])
            wanted -= per_job[others[i][0]]
        print("photographs", photos, "others", write(chosen), "leaves", leaves)
        squares = sorted(glob.glob(f"{folder}/photo-*.png"))
        for _ in pool.imap_unordered(write_leaves, [(i, squares, side, folder) for i in range(leaves)], chunksize=4):
            pass


def expand(root, patterns):
    return sorted(p for pattern in patterns for p in glob.glob(os.path.join(root, pattern), recursive=True))


def plan(root, photos_folder, scale):
    """The list of jobs: (kind, seed, what to cut). Fixed seeds, so that the data set can be made again."""
    rng = np.random.default_rng(1)
    jobs = []
    for pattern in sources.EXCLUDED:
        assert expand(root, [pattern]), f"nothing is {pattern}: have its sources changed?"
    excluded = set(expand(root, sources.EXCLUDED))
    photos = [(p, f, w / len(fs)) for g, fs, w, _ in sources.TRAIN_PHOTOS for p in expand(root, [g]) if p not in excluded
              for f in fs]
    photos += [(p, f, w / len(fs)) for g, fs, w, _ in sources.MORE_PHOTOS for p in expand(photos_folder, [g]) for f in fs]
    total = sum(w for _, _, w in photos)
    for path, factor, weight in photos:
        jobs.append(("photo", (path, factor, max(1, int(COUNTS["photo"] * scale * weight / total)))))
    for kind, pattern in (("svg", sources.TRAIN_SVG), ("icon", sources.TRAIN_ICONS)):
        paths = [p for p in expand(root, [pattern]) if not (kind == "svg" and heldout_svg(p))]
        per = 3
        chosen = rng.permutation(paths)[:int(COUNTS[kind] * scale / per)]
        jobs += [(kind, (str(p), per)) for p in chosen]
    text = dict(count=5, fonts=expand(root, sources.TRAIN_FONTS), cjk=expand(root, sources.TRAIN_CJK_FONTS),
                photos=[p for p, _, _ in photos])
    jobs += [("text", text)] * int(COUNTS["text"] * scale / 20)
    for kind in ("shapes", "patterns"):
        jobs += [(kind, dict(count=20))] * int(COUNTS[kind] * scale / 20)
    return [(kind, i, what) for i, (kind, what) in enumerate(jobs)]


def write_heldout(root, out):
    rng = np.random.default_rng(2)
    for kind in ("photo", "text", "flat"):
        os.makedirs(os.path.join(out, "heldout", kind), exist_ok=True)
    for path, factor, _ in sources.HELDOUT_PHOTOS:
        name = os.path.splitext(os.path.basename(path))[0]
        shrink(load_image(os.path.join(root, path)), factor).save(f"{out}/heldout/photo/{name}.png")
    fonts, cjk = expand(root, sources.HELDOUT_FONTS), expand(root, sources.HELDOUT_CJK_FONTS)
    for i in range(12):
        drawing.text_page(rng, fonts, cjk, 400).save(f"{out}/heldout/text/page{i:02}.png")
    svgs = [p for p in expand(root, [sources.TRAIN_SVG]) if heldout_svg(p)]
    folders = set()  # at most one drawing per folder and six first letters, for variety
    for path in rng.permutation(svgs):
        key = (os.path.dirname(path), os.path.basename(path)[:6])
        image = None if key in folders else render_svg(str(path), 480, "#ffffff")
        if image is not None and min(image.size) >= 160:
            image.save(f"{out}/heldout/flat/{os.path.basename(path)[:-4]}.png")
            folders.add(key)
        if len(folders) == HELDOUT_SVGS:
            break


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("out")
    parser.add_argument("--photos", default="", help="folder of more photographs (sources.MORE_PHOTOS)")
    parser.add_argument("--scale-count", type=float, default=1.0, help="fraction of the usual number of squares")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--images", type=int, default=320, metavar="SIDE", help="pixels a side")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    write_heldout(args.root, args.out)
    jobs = plan(args.root, args.photos, args.scale_count)
    make_images(jobs, int(COUNTS["leaves"] * args.scale_count), args.images, os.path.join(args.out, "images"), args.workers)


if __name__ == "__main__":
    main()
