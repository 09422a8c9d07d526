#!/usr/bin/python3
"""Published networks at their real sizes: what becomes of a downloaded file, and how fast it is beside PyTorch.

    weights_bench.py BUILD_DIR [--rounds N] [--only FAMILY,...] [--size 1920x1080] [--foretell 256x256] [--limit SECONDS]

Writes each family's weights, random ones, as torch.save does; has `upscale-bench` say what it takes them for, on which
devices they run, and how it cuts images; has `compare_exports` compare the result of a small image with PyTorch's; then
times the CPU backend and PyTorch on one thread each, in turns and in processor time. `--foretell` runs an image of that
size as well: the time by its planned cost, at the speed of the timed image, over the time taken. Families that cannot
begin within the limit are named and left out. Prints a table of Markdown. Exits with 77 where there is no PyTorch.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "engine/model"))
import public_networks  # noqa: E402
import published_weights as weights  # noqa: E402  exits where there is no PyTorch
import torch  # noqa: E402

DEVICES = ["reference", "cpu", "opencl:0.0"]
TINY = "12x8"  # for devices where only whether it runs is asked
COMPARED = (24, 40)  # height and width of the image that is compared with PyTorch's result
PLANNED = ("256x256", "1024x1024")


@dataclasses.dataclass
class Family:
    name: str
    examples: str  # in OpenModelDB
    make: typing.Callable
    size: tuple  # width and height of the image that is timed


FAMILIES = [
    Family("ESRGAN", "4x-UltraSharp, 4x-NMKD-Siax-CX", lambda: weights.Rrdb("esrgan", 23), (64, 48)),
    Family("Real-ESRGAN", "RealESRGAN_x4plus", lambda: weights.Rrdb("real-esrgan", 23), (64, 48)),
    Family("Real-ESRGAN-x2", "RealESRGAN_x2plus", lambda: weights.Rrdb("real-esrgan", 23, unshuffle=2), (128, 96)),
    Family("Real-ESRGAN-6B", "RealESRGAN_x4plus_anime_6B", lambda: weights.Rrdb("real-esrgan", 6), (128, 96)),
    Family("BSRGAN", "BSRGAN", lambda: weights.Rrdb("bsrgan", 23), (64, 48)),
    Family("ESRGAN-plus", "nESRGAN+", lambda: weights.Rrdb("esrgan", 23, plus=True), (64, 48)),
    Family("Compact", "realesr-animevideov3, 2x-AnimeJaNai Compact", lambda: weights.Srvgg(4), (480, 270)),
    Family("Compact-32", "realesr-general-x4v3", lambda: weights.Srvgg(4, convs=32), (480, 270)),
    Family("UltraCompact", "2x-AnimeJaNai UltraCompact", lambda: weights.Srvgg(2, convs=8), (480, 270)),
    Family("SuperUltraCompact", "2x-AnimeJaNai SuperUltraCompact", lambda: weights.Srvgg(2, convs=8, width=24), (480, 270)),
    Family("SPAN", "4xSPANkendata, 2x-ModernSpanimation", lambda: weights.Span(4), (480, 270)),
    Family("ArtCNN-R8F64", "ArtCNN R8F64", lambda: weights.ArtCnn(2, 8, 64), (240, 135)),
    Family("ArtCNN-R4F32-luma", "ArtCNN R4F32 of luma", lambda: weights.Luma(weights.ArtCnn(2, 4, 32, planes=1), 2), (480, 270)),
    Family("DIS", "DIS of 4 blocks", lambda: weights.Dis(4, 4, 32), (480, 270)),
    Family("DIS-depthwise", "DIS of 12 depthwise blocks, x2", lambda: weights.Dis(2, 12, 32, depthwise=True), (480, 270)),
    Family("PLKSR", "PLKSR of 28 blocks", lambda: weights.Plksr(4, 28, 64), (120, 68)),
    Family("RealPLKSR", "4xNomos2_realplksr, with norms", lambda: weights.Plksr(4, 28, 64, real=True, norm=True), (120, 68)),
    Family("MoSR", "MoSR of 24 blocks", lambda: weights.Mosr(4, 24, 64, 64), (120, 68)),
    Family("cunet-x2", "waifu2x cunet, Real-CUGAN up2x", lambda: weights.Cunet(2), (240, 135)),
    Family("cugan-x4", "Real-CUGAN up4x", lambda: weights.Cunet(4), (240, 135)),
    Family("swin_unet_2x", "waifu2x swin_unet 2x", lambda: weights.SwinUnet(2), (192, 192)),
    Family("SwinIR-S", "SwinIR lightweight, x2", lambda: weights.SwinIr(2, 60, 4, 6, 6, ending="pixelshuffledirect"), (192, 192)),
    Family("SwinIR-M", "SwinIR classical, x2", lambda: weights.SwinIr(2, 180, 6, 6, 6), (96, 96)),
    Family("Swin2SR", "Swin2SR classical, x2", lambda: weights.Swin2Sr(2, 180, 6, 6, 6), (64, 64)),
    Family("HAT-S", "HAT-S x4", lambda: weights.Hat(4, 144, 6, 6, 6), (64, 64)),
    Family("DAT-2", "DAT-2 x4", lambda: weights.Dat(4, 180, (6,) * 6, 6, (8, 32), 2), (64, 64)),
    Family("DAT-light", "DAT light x4", lambda: weights.Dat(4, 60, (18,), 6, (8, 32), 2, "pixelshuffledirect"), (64, 64)),
    Family("DRCT", "DRCT x4", lambda: weights.Drct(4, 180, 6, 6, growth=32), (64, 64)),
    Family("SRFormer", "SRFormer light x4", lambda: weights.SrFormer(4, 60, 4, 6, 6, ending="pixelshuffledirect"), (64, 64)),
    Family("SCUNet", "SCUNet", lambda: weights.Scunet(), (64, 64)),
    Family("Omni-SR", "OmniSR x4", lambda: weights.OmniSr(4, 64, 5, 1), (64, 64)),
    Family("SPSR", "SPSR x4", lambda: weights.Spsr(4, 23), (32, 24)),
    Family("RCAN", "RCAN x4", lambda: weights.Edsr(4, 20, 64, groups=10), (64, 64)),
    Family("EDSR", "EDSR-M x4", lambda: weights.Edsr(4, 16, 64), (128, 96)),
    Family("SRResNet", "MSRResNet x4", lambda: weights.SrResNet(4, 16, 64), (128, 96)),
    Family("Swift-SRGAN", "Swift-SRGAN x4", lambda: weights.SwiftSrgan(4, 16, 64), (128, 96)),
    Family("RealPLKSR-DySample", "4xNomosWebPhoto RealPLKSR", lambda: weights.Plksr(4, 28, 64, real=True, norm=True, samples=True), (64, 64)),
    Family("SPANPlus", "SPANPlus x4", lambda: weights.SpanPlus(4), (240, 135)),
    Family("RTMoSR", "RTMoSR x2", lambda: weights.RtMosr(2, 32), (240, 136)),
    Family("RTMoSR-L", "RTMoSR_L x2", lambda: weights.RtMosr(2, 32, unshuffle=2), (240, 136)),
    Family("MoESR", "MoESR x4", lambda: weights.MoEsr(4, 64, 9, 4), (64, 64)),
    Family("vgg_7", "waifu2x vgg_7", lambda: weights.Nunif((32, 32, 64, 64, 128, 128)), (240, 135)),
    Family("upconv_7", "waifu2x upconv_7", lambda: weights.Nunif((16, 32, 64, 128, 128, 256)), (240, 135)),
]


class Bench:
    """upscale-bench, one subcommand a call."""

    def __init__(self, build):
        self.program = pathlib.Path(build) / "bin/upscale-bench"
        self.compare = pathlib.Path(build) / "tests/compare_exports"

    def run(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)

    def describe(self, folder, name):
        """The architecture that the model is taken for, and the milliseconds of loading and compiling it; nothing where it is refused."""
        for line in self.run("models", "--model-repository", folder).stdout.splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if cells[0].startswith(f"{name} x"):
                return {"detected": cells[1], "load_ms": cells[3], "compile_ms": cells[4]}
        return None

    def runs_on(self, device, file):
        return self.run("profile", "--device", device, "--model", file, "--size", TINY, "--time", 0).returncode == 0

    def plans(self, file):
        """How images are cut, and the greatest distance of the planned cost from the cost of all that is run, in percent."""
        done = self.run("forecast", "--model", file, "--size", ",".join(PLANNED), "--json")
        rows = json.loads(done.stdout)
        return ", ".join(row["cut"] for row in rows), max(abs(row["planned_over_run"] - 1) for row in rows) * 100

    def foretold(self, file, first, size):
        """The time by the cost planned for `size`, at the speed of an image of `first`, over the time that it takes."""
        sizes = f"{first[0]}x{first[1]},{size}"
        done = self.run("forecast", "--model", file, "--size", sizes, "--run", "--json")
        row = json.loads(done.stdout)[-1]
        return row["foretold_seconds"] / row["seconds"]

    def difference(self, model, tensors):
        """The largest difference to PyTorch's result, as a part of the largest value, or why there is none."""
        with tempfile.TemporaryDirectory() as parent:
            folder = pathlib.Path(parent) / "network"
            folder.mkdir()
            torch.save(tensors, folder / "network.pth")
            with torch.no_grad():
                x = torch.rand(1, 3, *COMPARED)
                public_networks.write_planes(folder / "image.planes", x)
                public_networks.write_planes(folder / "result.planes", model(x))
            done = subprocess.run([self.compare, parent, "cpu"], stdout=subprocess.PIPE, text=True, check=False)
        return done.stdout.splitlines()[0].split(None, 2)[2]

    def time(self, file, size):
        """Processor seconds on one thread, and the ratio to the FMA peak around it."""
        done = self.run("network", "--model", file, "--size", f"{size[0]}x{size[1]}", "--no-peers", "--time", 0, "--json")
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        row = json.loads(done.stdout)[0]
        return row["seconds"], row["ratio"]


def published(model):
    """As torch.save gets it: nunif's files say themselves what they hold."""
    tensors = model.published() if hasattr(model, "published") else model.state_dict()
    return tensors if "nunif_model" in tensors else {"params_ema": tensors}


def blas():
    """The library that multiplies matrices for PyTorch: Debian's default one is slow, libopenblas0 is not."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return ", ".join(sorted({pathlib.Path(line.split()[-1]).name for line in maps if "blas" in line})) or "unknown BLAS"


def merge(model):
    """As it is run, not as it is trained: SPAN's convolutions as one each. Their weights do not matter for the time."""
    for name, child in model.named_children():
        if isinstance(child, weights.Conv3XC):
            setattr(model, name, torch.nn.Conv2d(child.sk.in_channels, child.sk.out_channels, 3, padding=1))
        else:
            merge(child)


def time_torch(model, size):
    x = torch.rand(1, 3, size[1], size[0])
    with torch.no_grad():
        begin = time.process_time()
        model(x)
        return time.process_time() - begin


def measure(bench, family, model, file, rounds):
    """The fastest of both, in turns, because neighbours only slow down; each has warmed up."""
    time_torch(model, family.size)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(bench.time(file, family.size))
        theirs.append(time_torch(model, family.size))
    return *min(ours), min(theirs)


def row(bench, family, folder, rounds, devices, foretell):
    torch.manual_seed(1)
    model = family.make().eval()
    file = folder / f"{family.name}.pth"
    torch.save(published(model), file)
    found = bench.describe(folder, family.name)
    if found is None:
        return f"| {family.name} | {family.examples} | refused |"
    cuts, forecast = bench.plans(file)
    difference = bench.difference(model, published(model))
    runs = [device.split(":")[0] for device in devices if bench.runs_on(device, file)]
    merge(model)
    ours, ratio, theirs = measure(bench, family, model, file, rounds)
    foretold = f"{bench.foretold(file, family.size, foretell):.2f}" if foretell else ""
    file.unlink()
    cells = [family.name, family.examples, found["detected"], ", ".join(runs), cuts, f"{forecast:.1f}", difference,
             f"{family.size[0]}x{family.size[1]}", f"{ours * 1e3:.0f}", f"{ratio:.2f}", f"{theirs * 1e3:.0f}",
             f"{theirs / ours:.2f}"] + ([foretold] if foretell else [])
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="folder of a release build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--devices", default=",".join(DEVICES))
    parser.add_argument("--size", help="of the image, instead of a small one by family")
    parser.add_argument("--foretell", metavar="SIZE", help="also compare the time foretold for this size with the time taken")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="begin no family after this time")
    arguments = parser.parse_args()
    only = set(filter(None, arguments.only.split(",")))
    families = [family for family in FAMILIES if not only or family.name in only]
    if arguments.size:
        size = tuple(map(int, arguments.size.split("x")))
        families = [dataclasses.replace(family, size=size) for family in families]
    torch.set_num_threads(1)
    bench = Bench(arguments.build)
    print(f"PyTorch {torch.__version__} with {blas()}, one thread each, processor time; load {os.getloadavg()[0]:.1f} at the beginning\n")
    print(f"| family | for example | detected | runs on | {', '.join(PLANNED)} | forecast off, % | difference | image | "
          "ours, ms | of the FMA peak | PyTorch, ms | PyTorch / ours |"
          + (f" {arguments.foretell}, foretold / taken |" if arguments.foretell else "")
          + "\n|" + "---|" * (13 if arguments.foretell else 12))
    begin, left_out = time.monotonic(), []
    with tempfile.TemporaryDirectory() as folder:
        for family in families:
            if arguments.limit and time.monotonic() - begin > arguments.limit:
                left_out.append(family.name)
                continue
            print(row(bench, family, pathlib.Path(folder), arguments.rounds, arguments.devices.split(","),
                      arguments.foretell), flush=True)
    if left_out:
        print(f"\nleft out after {arguments.limit:.0f} s: {', '.join(left_out)}")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
