// Between images (interleaved samples, rows without gaps) and tensors. One item a pixel.

// The rectangle `out` of the padded image from the pixels of `src_rect`; what lies outside the
// image of size `image` repeats its edge.
#define DEFINE_LOAD(name, Sample, scale)                                                       \
  __kernel void name(__global const Sample *restrict src, const int4 src_rect,                 \
                     const int channels, const int2 image, const int pad_px,                 \
                     __global STORAGE *restrict dst, const int4 dst_rect, const int4 out) {    \
    if (get_global_id(0) >= out.z || get_global_id(1) >= out.w) return;                        \
    const int x = out.x + get_global_id(0), y = out.y + get_global_id(1);                      \
    const int from_x = clamp(x - pad_px, 0, image.x - 1);                                    \
    const int from_y = clamp(y - pad_px, 0, image.y - 1);                                    \
    __global const Sample *pixel = src + pixel_at(src_rect, 0, from_x, from_y) * channels;     \
    const float8 value = (float8)(pixel[0], pixel[1], pixel[2], 0, 0, 0, 0, 0);                \
    STORE8(value * (scale), pixel_at(dst_rect, 0, x, y), dst);                                 \
  }

DEFINE_LOAD(load_u8, uchar, 1.0f / 255)
DEFINE_LOAD(load_u16, ushort, 1.0f / 65535)
DEFINE_LOAD(load_f32, float, 1.0f)

// The rectangle `out` of the tensor as RGB samples. Not a number becomes 0 in integers.
#define DEFINE_STORE(name, Sample, convert)                                              \
  __kernel void name(__global const STORAGE *restrict src, const int4 src_rect,          \
                     const int4 out, __global Sample *restrict dst) {                    \
    if (get_global_id(0) >= out.z || get_global_id(1) >= out.w) return;                  \
    const int x = out.x + get_global_id(0), y = out.y + get_global_id(1);                \
    const float8 value = LOAD8(pixel_at(src_rect, 0, x, y), src);                        \
    __global Sample *pixel = dst + (get_global_id(1) * out.z + get_global_id(0)) * 3;    \
    pixel[0] = convert(value.s0);                                                        \
    pixel[1] = convert(value.s1);                                                        \
    pixel[2] = convert(value.s2);                                                        \
  }

int round_to(float v, float full_scale) {
  const float clamped = v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
  return (int)(clamped * full_scale + 0.5f);
}
#define TO_U8(v) (uchar) round_to(v, 255.0f)
#define TO_U16(v) (ushort) round_to(v, 65535.0f)
#define TO_F32(v) (v)

DEFINE_STORE(store_u8, uchar, TO_U8)
DEFINE_STORE(store_u16, ushort, TO_U16)
DEFINE_STORE(store_f32, float, TO_F32)
