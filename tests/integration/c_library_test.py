#!/usr/bin/env python3
"""engine/c_api in an installed tree: c_library_test.py BUILD UPSCALE STUB_GPU. Compiles the examples against it, as a user would, and compares
their results with the service's."""
import ctypes
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "engine" / "c_api" / "examples"
WIDTH, HEIGHT = 61, 47


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=300, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command} exits with {done.returncode}: {done.stdout[:2000]}{done.stderr.decode()}")
    return done.stdout


def png(width, height, rgb):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + rgb[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def paeth(a, b, c):
    distances = abs(b - c), abs(a - c), abs(a + b - 2 * c)
    return (a, b, c)[distances.index(min(distances))]


def rgb_of(data):
    """The samples of a PNG of 8-bit RGB that is not interlaced."""
    place, packed = 8, b""
    while place < len(data):
        size, kind = struct.unpack(">I4s", data[place:place + 8])
        body = data[place + 8:place + 8 + size]
        if kind == b"IHDR":
            width, _, *form = struct.unpack(">IIBBBBB", body)
            assert form == [8, 2, 0, 0, 0], form
        packed += body if kind == b"IDAT" else b""
        place += 12 + size
    lines, stride = zlib.decompress(packed), 3 * width
    above, pixels = bytes(stride), b""
    for start in range(0, len(lines), stride + 1):
        line, filter_kind = bytearray(lines[start + 1:start + 1 + stride]), lines[start]
        for x in range(stride):
            left, corner = (line[x - 3], above[x - 3]) if x >= 3 else (0, 0)
            line[x] = (line[x] + (0, left, above[x], (left + above[x]) // 2, paeth(left, above[x], corner))[filter_kind]) & 255
        above = bytes(line)
        pixels += above
    return pixels


class CLibraryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "installed"
        for component in ("dev", "library"):
            run("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", component)
        shutil.copytree(ROOT / "engine/model/bundled", cls.prefix / "share/upscaled/models")
        cls.library = next(cls.prefix.rglob("libupscaled.so.1"))
        cls.environment = {**os.environ, "LD_LIBRARY_PATH": str(cls.library.parent),
                           "PKG_CONFIG_PATH": str(cls.library.parent / "pkgconfig")}
        source = random.Random(os.urandom(8))
        # Smooth, as noise would hide mixed up rows or channels.
        slopes = [source.randint(1, 9) for _ in range(6)]
        rgb = bytes((slopes[c] * x + slopes[c + 3] * y) % 256 for y in range(HEIGHT) for x in range(WIDTH) for c in range(3))
        cls.ppm = b"P6 %d %d 255\n" % (WIDTH, HEIGHT) + rgb
        (cls.folder / "in.png").write_bytes(png(WIDTH, HEIGHT, rgb))

    def expected(self, model):
        """The PPM of the service's result."""
        out = self.folder / f"{model}.png"
        run(UPSCALE, "--local", "-i", self.folder / "in.png", "-o", out, "-m", model, "-n", "-1")
        return b"P6 %d %d 255\n" % (2 * WIDTH, 2 * HEIGHT) + rgb_of(out.read_bytes())

    def test_c(self):
        flags = run("pkg-config", "--cflags", "--libs", "upscaled", env=self.environment).decode().split()
        program = self.folder / "upscale_ppm"
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", EXAMPLES / "upscale_ppm.c", "-o", program, *flags)
        self.assertEqual(run(program, input=self.ppm, env=self.environment), self.expected("general-2x"))

    def test_cpp(self):
        build = self.folder / "cpp"
        run("cmake", "-S", EXAMPLES, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.assertEqual(run(build / "upscale_rows", input=self.ppm), self.expected("fast-2x"))

    def test_python(self):
        self.assertEqual(run(sys.executable, EXAMPLES / "upscale_ppm.py", input=self.ppm, env=self.environment),
                         self.expected("general-2x"))

    def test_shows_only_its_functions(self):
        symbols = run("nm", "--dynamic", "--defined-only", self.library).decode()
        shown = set(re.findall(r" [A-Z] (\w+)@@UPSCALED_1", symbols))
        declared = set(re.findall(r"(?m)^(?:int|void|const char\*) (upscaled_\w+)\(", (ROOT / "engine/c_api/upscaled.h").read_text()))
        self.assertGreater(len(declared), 6)
        self.assertEqual(shown, declared)
        self.assertEqual([line for line in symbols.splitlines() if "UPSCALED_1" not in line], [])

    def test_errors_name_value_and_limit(self):
        library = ctypes.CDLL(str(self.library))
        library.upscaled_error.restype = ctypes.c_char_p
        model, image = ctypes.c_void_p(), (ctypes.c_int * 4)(WIDTH, HEIGHT, 3, 8)
        self.assertEqual(library.upscaled_open_model(b"no-such", None, ctypes.byref(model)), 5)
        self.assertIn(b"general-2x", library.upscaled_error())
        self.assertIsNone(model.value)
        self.assertEqual(library.upscaled_open_model(b"fast-2x", None, ctypes.byref(model)), 0)
        self.assertEqual(library.upscaled_error(), b"")
        self.addCleanup(library.upscaled_close_model, model)
        plan = (ctypes.c_size_t * 5)(40)
        for wrong, told in (((0, 1, 3, 8), b"0x1"), ((1, 1, 5, 8), b"channels is 5"), ((1, 1, 3, 12), b"bits is 12")):
            self.assertEqual(library.upscaled_plan(model, (ctypes.c_int * 4)(*wrong), None, plan), 3)
            self.assertIn(told, library.upscaled_error())
        self.assertEqual(library.upscaled_plan(model, image, None, (ctypes.c_size_t * 5)(4096)), 3)
        self.assertIn(b"struct_bytes is 4096", library.upscaled_error())
        result = ctypes.create_string_buffer(12 * WIDTH * HEIGHT)
        strides = ctypes.c_size_t(3 * WIDTH), ctypes.c_size_t(6 * WIDTH - 1)
        self.assertEqual(library.upscaled_run(model, image, None, self.ppm, strides[0], result, strides[1]), 3)
        self.assertIn(b"result_stride_bytes is 365; a row has 366 bytes", library.upscaled_error())

    def test_lists_the_devices_of_the_plugins_next_to_it(self):
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)

        def devices(library):
            names = []
            found = function(lambda user, name, description: names.append(name.decode()))
            self.assertEqual(ctypes.CDLL(str(library)).upscaled_list_devices(found, None), 0)
            return names
        self.assertEqual(devices(self.library)[0], "cpu")
        plugins = self.folder / "moved/upscaled"
        plugins.mkdir(parents=True)
        shutil.copy(STUB, plugins / "libupscaled_cuda.so")
        moved = shutil.copy(self.library, plugins.parent)
        self.assertEqual(devices(moved)[0], "cuda:0")

    def test_a_callback_ends_the_run(self):
        library = ctypes.CDLL(str(self.library))
        library.upscaled_error.restype = ctypes.c_char_p
        model, image = ctypes.c_void_p(), (ctypes.c_int * 4)(WIDTH, HEIGHT, 3, 8)
        self.assertEqual(library.upscaled_open_model(b"fast-2x", None, ctypes.byref(model)), 0)
        self.addCleanup(library.upscaled_close_model, model)
        rows = []
        function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        read = function(lambda user, row: 0)
        stop = function(lambda user, row: rows.append(row) or len(rows) == 3)
        self.assertEqual(library.upscaled_run_rows(model, image, None, read, stop), 1)
        self.assertEqual(len(rows), 3)
        self.assertIn(b"write asked for the end", library.upscaled_error())


if __name__ == "__main__":
    BUILD, UPSCALE, STUB = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
