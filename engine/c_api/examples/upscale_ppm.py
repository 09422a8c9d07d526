"""Upscales a PPM from standard input: python3 upscale_ppm.py < in.ppm > out.ppm"""
import ctypes as c
import sys


class Image(c.Structure):
    _fields_ = [(name, c.c_int) for name in ("width_px", "height_px", "channels", "bits")]


class Plan(c.Structure):
    _fields_ = [("struct_bytes", c.c_size_t), ("result", Image), ("multiply_adds", c.c_int64), ("memory_bytes", c.c_int64)]


library = c.CDLL("libupscaled.so.1")
library.upscaled_error.restype = c.c_char_p
library.upscaled_close_model.argtypes = [c.c_void_p]


def check(code):
    if code:
        sys.exit(library.upscaled_error().decode())


kind, width, height, most = sys.stdin.buffer.readline().split()
pixels = sys.stdin.buffer.read()
source, model, plan = Image(int(width), int(height), 3, 8), c.c_void_p(), Plan(struct_bytes=c.sizeof(Plan))
check(library.upscaled_open_model(b"general-2x", None, c.byref(model)))
check(library.upscaled_plan(model, c.byref(source), None, c.byref(plan)))
stride = plan.result.width_px * 3
result = c.create_string_buffer(stride * plan.result.height_px)
check(library.upscaled_run(model, c.byref(source), None, pixels, c.c_size_t(source.width_px * 3), result, c.c_size_t(stride)))
library.upscaled_close_model(model)
sys.stdout.buffer.write(b"P6 %d %d 255\n" % (plan.result.width_px, plan.result.height_px) + result.raw)
