// Layers that move or combine values: one item a pixel and plane.

#define ITEM                                                                              \
  const int plane = get_global_id(2);                                                     \
  if (get_global_id(0) >= out.z || get_global_id(1) >= out.w || plane >= planes) return;  \
  const int x = out.x + get_global_id(0), y = out.y + get_global_id(1);
#define WRITE(value) STORE8(ACTIVATE(value, plane), pixel_at(dst_rect, plane, x, y), dst)
#define SOURCE(n) __global const STORAGE *restrict src##n, const int4 rect##n
#define READ(n, x, y) LOAD8(pixel_at(rect##n, plane, x, y), src##n)

// Sets a rectangle to zero: what lies in a tensor but outside its layer.
__kernel void zero(__global STORAGE *restrict dst, const int4 dst_rect, const int4 out,
                   const int planes) {
  ITEM
  STORE8((float8)(0.0f), pixel_at(dst_rect, plane, x, y), dst);
}

// From floats in the order [channel][y][x] of the rectangle `out`, and back.
__kernel void pack(__global const float *restrict values, __global STORAGE *restrict dst,
                   const int4 dst_rect, const int4 out, const int planes, const int channels) {
  ITEM
  float lane[8];
  for (int i = 0; i < 8; ++i) {
    const int at = ((plane * 8 + i) * out.w + y - out.y) * out.z + x - out.x;
    lane[i] = plane * 8 + i < channels ? values[at] : 0.0f;
  }
  STORE8(vload8(0, lane), pixel_at(dst_rect, plane, x, y), dst);
}

__kernel void unpack(SOURCE(0), const int4 out, const int planes, const int channels,
                     __global float *restrict values) {
  ITEM
  float lane[8];
  vstore8(READ(0, x, y), 0, lane);
  for (int i = 0; i < 8 && plane * 8 + i < channels; ++i) {
    values[((plane * 8 + i) * out.w + y - out.y) * out.z + x - out.x] = lane[i];
  }
}

// Also a lone activation: a crop of nothing.
__kernel void crop(SOURCE(0), RESULT_PARAMETERS, const int crop_px) {
  ITEM
  WRITE(READ(0, x + crop_px, y + crop_px));
}

__kernel void add(SOURCE(0), SOURCE(1), RESULT_PARAMETERS) {
  ITEM
  WRITE(READ(0, x, y) + READ(1, x, y));
}

__kernel void mul(SOURCE(0), SOURCE(1), RESULT_PARAMETERS) {
  ITEM
  WRITE(READ(0, x, y) * READ(1, x, y));
}

// The second input has one pixel: a factor per channel.
__kernel void mul_channels(SOURCE(0), SOURCE(1), RESULT_PARAMETERS) {
  ITEM
  WRITE(READ(0, x, y) * READ(1, 0, 0));
}

__kernel void affine(SOURCE(0), RESULT_PARAMETERS) {
  ITEM
  WRITE(READ(0, x, y) * FACTOR(plane) + BIAS(plane));
}

__kernel void resize_nearest(SOURCE(0), RESULT_PARAMETERS, const int factor) {
  ITEM
  WRITE(READ(0, x / factor, y / factor));
}

// The first of the two neighbours of output `at` along an axis, and the weight of the second. In
// whole numbers, as far from the origin floats have no digits left for the fraction.
int blend(int at, int factor, float *weight) {
  const int twice = 2 * at + 1 - factor, period = 2 * factor;  // 2 * factor * the source coordinate
  const int first = twice >= 0 ? twice / period : -1;
  *weight = (float)(twice - first * period) / (float)period;
  return first;
}

__kernel void resize_bilinear(SOURCE(0), RESULT_PARAMETERS, const int factor,
                              const int2 src_layer) {
  ITEM
  float right, below;
  const int first_x = blend(x, factor, &right), first_y = blend(y, factor, &below);
  const int left_x = max(first_x, 0), right_x = min(first_x + 1, src_layer.x - 1);
  const int top_y = max(first_y, 0), bottom_y = min(first_y + 1, src_layer.y - 1);
  const float8 top_left = READ(0, left_x, top_y), bottom_left = READ(0, left_x, bottom_y);
  const float8 top = fma(READ(0, right_x, top_y) - top_left, (float8)(right), top_left);
  const float8 bottom = fma(READ(0, right_x, bottom_y) - bottom_left, (float8)(right), bottom_left);
  WRITE(fma(bottom - top, (float8)(below), top));
}

// As PadSource of engine/graph.
#define REPLICATE 1
#define REFLECT 2
int pad_source(int position, int side, int mode) {
  const int period = 2 * (side - 1);
  if (mode == REPLICATE || period == 0) return clamp(position, 0, side - 1);
  const int remainder = position % period, phase = remainder < 0 ? remainder + period : remainder;
  return min(phase, period - phase);
}

__kernel void pad(SOURCE(0), RESULT_PARAMETERS, const int padding, const int mode,
                  const float value, const int2 src_layer) {
  ITEM
  int from_x = x - padding, from_y = y - padding;
  const bool inside =
      from_x >= 0 && from_x < src_layer.x && from_y >= 0 && from_y < src_layer.y;
  if (!inside && mode != REPLICATE && mode != REFLECT) {
    WRITE((float8)(value));
    return;
  }
  from_x = pad_source(from_x, src_layer.x, mode);
  from_y = pad_source(from_y, src_layer.y, mode);
  WRITE(READ(0, from_x, from_y));
}

float channel_at(__global const STORAGE *src, int4 rect, int channel, int x, int y) {
  return LOAD1(pixel_at(rect, channel / 8, x, y) * 8 + channel % 8, src);
}

__kernel void pixel_shuffle(SOURCE(0), RESULT_PARAMETERS, const int factor, const int channels) {
  ITEM
  const int from_x = x / factor, from_y = y / factor;
  const int step = factor * factor, offset = (y - from_y * factor) * factor + x - from_x * factor;
  float lane[8];
  for (int i = 0; i < 8; ++i) {
    const int channel = plane * 8 + i;
    lane[i] = channel < channels
                  ? channel_at(src0, rect0, channel * step + offset, from_x, from_y)
                  : 0.0f;
  }
  WRITE(vload8(0, lane));
}

__kernel void slice(SOURCE(0), RESULT_PARAMETERS, const int first, const int channels) {
  ITEM
  if (first % 8 == 0) {
    WRITE(LOAD8(pixel_at(rect0, plane + first / 8, x, y), src0));
    return;
  }
  float lane[8];
  for (int i = 0; i < 8; ++i) {
    const int channel = plane * 8 + i;
    lane[i] = channel < channels ? channel_at(src0, rect0, first + channel, x, y) : 0.0f;
  }
  WRITE(vload8(0, lane));
}

// A macro: Oclgrind's check of uninitialised values crashes on functions that take vectors.
#define SUM_OF_LANES(v) (dot(v.lo, (float4)(1.0f)) + dot(v.hi, (float4)(1.0f)))

// Each item finds the pixel's means again, of all its planes.
__kernel void pixel_norm(SOURCE(0), RESULT_PARAMETERS, const int channels, const int centred,
                         const float epsilon) {
  ITEM
  const int8 lanes = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
  float8 sum = 0.0f, squares = 0.0f;
  for (int p = 0; centred && p < planes; ++p) {
    const float8 value = LOAD8(pixel_at(rect0, p, x, y), src0);
    sum += select((float8)(0.0f), value, lanes + p * 8 < (int8)(channels));
  }
  const float8 mean = SUM_OF_LANES(sum) / (float)channels;
  for (int p = 0; p < planes; ++p) {
    const float8 difference = LOAD8(pixel_at(rect0, p, x, y), src0) - mean;
    const float8 there = select((float8)(0.0f), difference, lanes + p * 8 < (int8)(channels));
    squares = fma(there, there, squares);
  }
  const float deviation = sqrt(SUM_OF_LANES(squares) / (float)channels + epsilon);
  WRITE((READ(0, x, y) - mean) / deviation * FACTOR(plane) + BIAS(plane));
}

// The second input's pixel has the means of all channels, then of their squares. Each item finds the
// moments of its channels' groups again.
__kernel void group_norm(SOURCE(0), SOURCE(1), RESULT_PARAMETERS, const int channels,
                         const int group, const float epsilon) {
  ITEM
  float means[8], factors[8];
  for (int i = 0; i < 8; ++i) {
    const int channel = min(plane * 8 + i, channels - 1), first = channel / group * group;
    if (i > 0 && channel > first) {  // the same group's
      means[i] = means[i - 1];
      factors[i] = factors[i - 1];
      continue;
    }
    float sum = 0.0f, squares = 0.0f;
    for (int c = first; c < first + group; ++c) {
      sum += channel_at(src1, rect1, c, 0, 0);
      squares += channel_at(src1, rect1, channels + c, 0, 0);
    }
    const float mean = sum / (float)group;
    const float variance = max(fma(-mean, mean, squares / (float)group), 0.0f);
    means[i] = mean;
    factors[i] = 1.0f / sqrt(variance + epsilon);
  }
  WRITE((READ(0, x, y) - vload8(0, means)) * vload8(0, factors) * FACTOR(plane) + BIAS(plane));
}

// One input of a concatenation, its channels from `first` of the result on. Planes count from the
// one that holds `first`. The last plane is filled up with zeros: the next input overwrites them.
__kernel void concat(SOURCE(0), RESULT_PARAMETERS, const int first, const int channels) {
  const int plane = first / 8 + get_global_id(2);
  if (get_global_id(0) >= out.z || get_global_id(1) >= out.w || plane >= planes) return;
  const int x = out.x + get_global_id(0), y = out.y + get_global_id(1);
  if (first % 8 == 0) {
    const int from = pixel_at(rect0, plane - first / 8, x, y);
    STORE8(ACTIVATE(LOAD8(from, src0), plane), pixel_at(dst_rect, plane, x, y), dst);
    return;
  }
  float lane[8];
  for (int i = 0; i < 8; ++i) {
    const int channel = plane * 8 + i - first;
    const bool inside = channel >= 0 && channel < channels;
    lane[i] = inside ? channel_at(src0, rect0, channel, x, y) : 0.0f;
  }
  vstore8(ACTIVATE(vload8(0, lane), plane), 0, lane);
  const int to = pixel_at(dst_rect, plane, x, y) * 8;
  for (int i = max(0, first - plane * 8); i < 8; ++i) STORE1(lane[i], to + i, dst);
}
