// Direct convolutions. An item computes 8 output channels of PIXELS pixels of a row: each weight
// vector is loaded once for all of them, each input value multiplies 8 channels. Sums run over input
// planes, rows, columns and lanes in this order whatever PIXELS and the work-group are, so that all
// configurations give the same bits.
//
// Weights: [out plane][in plane][ky][kx][in lane] of float8 over the output lanes.
//
// An item at the end of a row computes pixels that it does not store; what it reads for them are
// values of the next row, or the slack behind a tensor's last one.

// One input lane times its 8 weights, for every pixel. `at(p)` is the input pixel of pixel p.
#define LANE(lane, at)                                            \
  {                                                               \
    const float8 w = vload8(lane, tap_weights);                   \
    _Pragma("unroll") for (int p = 0; p < PIXELS; ++p) sum[p] =   \
        fma(w, (float8)(in[at(p)].s##lane), sum[p]);              \
  }
#define ALL_LANES(at) \
  LANE(0, at) LANE(1, at) LANE(2, at) LANE(3, at) LANE(4, at) LANE(5, at) LANE(6, at) LANE(7, at)

#define CONV_PARAMETERS                                                          \
  __global const STORAGE *restrict src, const int4 src_rect, const int src_planes, \
      __global const float *restrict weights

#define SAME(p) (p)
#define SHIFTED(p) ((p) + kx)

// 3x3 with stride 1: the pixels of a row are loaded once for its three taps.
__kernel void conv3x3(CONV_PARAMETERS, RESULT_PARAMETERS, const int padding) {
  const int column = get_global_id(0) * PIXELS, line = get_global_id(1), plane = get_global_id(2);
  if (column >= out.z || line >= out.w || plane >= planes) return;
  const int x = out.x + column, y = out.y + line;
  float8 sum[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[p] = BIAS(plane);
  __global const float *tap_weights = weights + plane * src_planes * 9 * 64;
  for (int block = 0; block < src_planes; ++block) {
    for (int ky = 0; ky < 3; ++ky) {
      const int from = pixel_at(src_rect, block, x - padding, y - padding + ky);
      float8 in[PIXELS + 2];
#pragma unroll
      for (int p = 0; p < PIXELS + 2; ++p) in[p] = LOAD8(from + p, src);
#pragma unroll
      for (int kx = 0; kx < 3; ++kx, tap_weights += 64) {
        ALL_LANES(SHIFTED)
      }
    }
  }
  const int to = pixel_at(dst_rect, plane, x, y);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (column + p < out.z) STORE8(ACTIVATE(sum[p], plane), to + p, dst);
  }
}

// Any kernel size and stride.
__kernel void conv(CONV_PARAMETERS, RESULT_PARAMETERS, const int padding, const int kernel_px,
                   const int stride) {
  const int column = get_global_id(0) * PIXELS, line = get_global_id(1), plane = get_global_id(2);
  if (column >= out.z || line >= out.w || plane >= planes) return;
  const int x = out.x + column, y = out.y + line;
  float8 sum[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[p] = BIAS(plane);
  __global const float *tap_weights = weights + plane * src_planes * kernel_px * kernel_px * 64;
  for (int block = 0; block < src_planes; ++block) {
    for (int ky = 0; ky < kernel_px; ++ky) {
      const int from = pixel_at(src_rect, block, x * stride - padding, y * stride - padding + ky);
      for (int kx = 0; kx < kernel_px; ++kx, tap_weights += 64) {
        float8 in[PIXELS];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) in[p] = LOAD8(from + kx + p * stride, src);
        ALL_LANES(SAME)
      }
    }
  }
  const int to = pixel_at(dst_rect, plane, x, y);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (column + p < out.z) STORE8(ACTIVATE(sum[p], plane), to + p, dst);
  }
}

// Each channel alone, with any kernel size and stride. Weights: [plane][ky][kx] of float8.
__kernel void depthwise(CONV_PARAMETERS, RESULT_PARAMETERS, const int padding,
                        const int kernel_px, const int stride) {
  const int column = get_global_id(0) * PIXELS, line = get_global_id(1), plane = get_global_id(2);
  if (column >= out.z || line >= out.w || plane >= planes) return;
  const int x = out.x + column, y = out.y + line;
  float8 sum[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[p] = BIAS(plane);
  int tap = plane * kernel_px * kernel_px;
  for (int ky = 0; ky < kernel_px; ++ky) {
    const int from = pixel_at(src_rect, plane, x * stride - padding, y * stride - padding + ky);
    for (int kx = 0; kx < kernel_px; ++kx, ++tap) {
      const float8 w = vload8(tap, weights);
#pragma unroll
      for (int p = 0; p < PIXELS; ++p) {
        sum[p] = fma(w, LOAD8(from + kx + p * stride, src), sum[p]);
      }
    }
  }
  const int to = pixel_at(dst_rect, plane, x, y);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (column + p < out.z) STORE8(ACTIVATE(sum[p], plane), to + p, dst);
  }
}

// Transposed: input i reaches outputs i * stride - padding + [0, kernel_px). The pixels of an item
// lie `stride` apart, so that they share their taps and read adjacent inputs.
__kernel void transposed(CONV_PARAMETERS, RESULT_PARAMETERS, const int padding,
                         const int kernel_px, const int stride) {
  const int item = get_global_id(0), group = item / stride, phase = item - group * stride;
  const int column = group * stride * PIXELS + phase, line = get_global_id(1);
  const int plane = get_global_id(2);
  if (column >= out.z || line >= out.w || plane >= planes) return;
  const int x = out.x + column, y = out.y + line;
  float8 sum[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) sum[p] = BIAS(plane);
  const int taps = kernel_px * kernel_px;
  for (int block = 0; block < src_planes; ++block) {
    for (int ky = (y + padding) % stride; ky < kernel_px; ky += stride) {
      for (int kx = (x + padding) % stride; kx < kernel_px; kx += stride) {
        const int from = pixel_at(src_rect, block, (x + padding - kx) / stride,
                                  (y + padding - ky) / stride);
        float8 in[PIXELS];
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) in[p] = LOAD8(from + p, src);
        __global const float *tap_weights =
            weights + ((plane * src_planes + block) * taps + ky * kernel_px + kx) * 64;
        ALL_LANES(SAME)
      }
    }
  }
  const int to = pixel_at(dst_rect, plane, x, y);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (column + p * stride < out.z) STORE8(ACTIVATE(sum[p], plane), to + p * stride, dst);
  }
}
