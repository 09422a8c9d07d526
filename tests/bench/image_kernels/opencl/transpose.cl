// Changes of layout: a matrix of floats transposed, RGB of 8 bits to pixels of 8 floats and back.

// The yardstick: four floats an item.
__kernel void copy(__global const float *restrict src, const int count,
                   __global float *restrict dst) {
  const int first = 4 * get_global_id(0);
  if (first + 4 <= count) {
    vstore4(vload4(0, src + first), 0, dst + first);
  } else {
    for (int i = first; i < count; ++i) dst[i] = src[i];
  }
}

#define TILE 32

// Reads along rows and writes along columns.
__kernel void transpose_naive(__global const float *restrict src, const int2 size,
                              __global float *restrict dst) {
  const int x = get_global_id(0), y = get_global_id(1);
  if (x >= size.x || y >= size.y) return;
  dst[x * size.y + y] = src[y * size.x + x];
}

// Through local memory both are along rows: a group moves a tile of TILE x TILE, each of its
// `group_rows` rows of items several rows of the tile. A row of it takes `pitch` floats: with
// TILE + 1 the items that read a column find its values in different banks.
#define DEFINE_TRANSPOSE(name, pitch, group_rows)                                             \
  __kernel __attribute__((reqd_work_group_size(TILE, group_rows, 1))) void name(               \
      __global const float *restrict src, const int2 size, __global float *restrict dst) {    \
    __local float tile[TILE * (pitch)];                                                       \
    const int lx = get_local_id(0), ly = get_local_id(1);                                     \
    const int left = get_group_id(0) * TILE, top = get_group_id(1) * TILE;                    \
    for (int row = ly; row < TILE; row += group_rows) {                                       \
      if (left + lx < size.x && top + row < size.y) {                                         \
        tile[row * (pitch) + lx] = src[(top + row) * size.x + left + lx];                     \
      }                                                                                       \
    }                                                                                         \
    barrier(CLK_LOCAL_MEM_FENCE);                                                             \
    for (int row = ly; row < TILE; row += group_rows) {                                       \
      if (top + lx < size.y && left + row < size.x) {                                         \
        dst[(left + row) * size.y + top + lx] = tile[lx * (pitch) + row];                     \
      }                                                                                       \
    }                                                                                         \
  }

DEFINE_TRANSPOSE(transpose_shared, TILE, 16)
DEFINE_TRANSPOSE(transpose_padded, TILE + 1, 16)
DEFINE_TRANSPOSE(transpose_several, TILE + 1, 4)

// One item a value.
__kernel void to_planes_naive(__global const uchar *restrict src, const int pixels,
                              __global float *restrict dst) {
  const int i = get_global_id(0), pixel = i / 8, channel = i % 8;
  if (pixel >= pixels) return;
  dst[i] = channel < 3 ? src[pixel * 3 + channel] * (1.0f / 255) : 0.0f;
}

__kernel void to_planes_pixel(__global const uchar *restrict src, const int pixels,
                              __global float *restrict dst) {
  const int pixel = get_global_id(0);
  if (pixel >= pixels) return;
  const float3 value = convert_float3(vload3(pixel, src)) * (1.0f / 255);
  vstore8((float8)(value, 0.0f, (float4)(0.0f)), pixel, dst);
}

// Four pixels are 12 bytes: three aligned loads of 4.
__kernel void to_planes_several(__global const uchar *restrict src, const int pixels,
                                __global float *restrict dst) {
  const int first = 4 * get_global_id(0);
  uchar bytes[12];
  if (first + 4 <= pixels) {
    __global const uint *words = (__global const uint *)src + 3 * get_global_id(0);
    for (int i = 0; i < 3; ++i) vstore4(as_uchar4(words[i]), i, bytes);
  } else {
    for (int i = 0; i < 3 * (pixels - first); ++i) bytes[i] = src[3 * first + i];
  }
  for (int k = 0; k < min(4, pixels - first); ++k) {
    const float3 value = convert_float3(vload3(k, bytes)) * (1.0f / 255);
    vstore8((float8)(value, 0.0f, (float4)(0.0f)), first + k, dst);
  }
}

// 0..1 to 0..255; NaN becomes 0.
#define TO_LEVEL(v) ((uchar)(((v) > 0.0f ? ((v) < 1.0f ? (v) : 1.0f) : 0.0f) * 255.0f + 0.5f))

__kernel void from_planes_naive(__global const float *restrict src, const int pixels,
                                __global uchar *restrict dst) {
  const int i = get_global_id(0), pixel = i / 3;
  if (pixel < pixels) dst[i] = TO_LEVEL(src[pixel * 8 + i % 3]);
}

__kernel void from_planes_pixel(__global const float *restrict src, const int pixels,
                                __global uchar *restrict dst) {
  const int pixel = get_global_id(0);
  if (pixel >= pixels) return;
  const float4 value = vload4(2 * pixel, src);
  vstore3((uchar3)(TO_LEVEL(value.x), TO_LEVEL(value.y), TO_LEVEL(value.z)), pixel, dst);
}

__kernel void from_planes_several(__global const float *restrict src, const int pixels,
                                  __global uchar *restrict dst) {
  const int first = 4 * get_global_id(0), count = min(4, pixels - first);
  uchar bytes[12];
  for (int k = 0; k < count; ++k) {
    const float4 value = vload4(2 * (first + k), src);
    vstore3((uchar3)(TO_LEVEL(value.x), TO_LEVEL(value.y), TO_LEVEL(value.z)), k, bytes);
  }
  if (count == 4) {
    __global uint *words = (__global uint *)dst + 3 * get_global_id(0);
    for (int i = 0; i < 3; ++i) words[i] = as_uint(vload4(i, bytes));
  } else {
    for (int i = 0; i < 3 * count; ++i) dst[3 * first + i] = bytes[i];
  }
}
