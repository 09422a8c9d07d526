// The bilateral filter (Tomasi and Manduchi, 1998) over RGB of 8 bits. `space` holds the log2 of
// the closeness of each place in the window, row by row; `range` is that of a colour distance of 1.
// Pixels outside the image have no weight.

#define MAX_RADIUS 16

// One item a pixel; every tap comes from global memory.
__kernel void bilateral_naive(__global const uchar *restrict src, const int2 size,
                              const int radius, const float range,
                              __global const float *restrict space, __global uchar *restrict dst) {
  const int x = get_global_id(0), y = get_global_id(1);
  if (x >= size.x || y >= size.y) return;
  const float3 centre = convert_float3(vload3(y * size.x + x, src));
  float3 sum = (float3)(0.0f);
  float weights = 0.0f;
  for (int dy = max(-radius, -y); dy <= min(radius, size.y - 1 - y); ++dy) {
    for (int dx = max(-radius, -x); dx <= min(radius, size.x - 1 - x); ++dx) {
      const float3 value = convert_float3(vload3((y + dy) * size.x + x + dx, src));
      const float3 off = value - centre;
      const float closeness = space[(dy + radius) * (2 * radius + 1) + dx + radius];
      const float weight = exp2(fma(range, dot(off, off), closeness));
      weights += weight;
      sum += weight * off;
    }
  }
  vstore3(convert_uchar3_sat_rte(centre + sum / weights), y * size.x + x, dst);
}

// The pixels that a group of 16 x 16 items reads, loaded once.
#define SIDE 16
#define HALO_SIDE (SIDE + 2 * MAX_RADIUS)

__kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void bilateral_shared(
    __global const uchar *restrict src, const int2 size, const int radius, const float range,
    __global const float *restrict space, __global uchar *restrict dst) {
  __local uchar4 halo[HALO_SIDE * HALO_SIDE];
  const int lx = get_local_id(0), ly = get_local_id(1);
  const int left = get_group_id(0) * SIDE - radius, top = get_group_id(1) * SIDE - radius;
  const int halo_side = SIDE + 2 * radius;
  for (int row = ly; row < halo_side; row += SIDE) {
    for (int column = lx; column < halo_side; column += SIDE) {
      const int sx = clamp(left + column, 0, size.x - 1), sy = clamp(top + row, 0, size.y - 1);
      halo[row * HALO_SIDE + column] = (uchar4)(vload3(sy * size.x + sx, src), 0);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int x = get_global_id(0), y = get_global_id(1);
  if (x >= size.x || y >= size.y) return;
  const float3 centre = convert_float3(halo[(ly + radius) * HALO_SIDE + lx + radius].xyz);
  float3 sum = (float3)(0.0f);
  float weights = 0.0f;
  for (int dy = max(-radius, -y); dy <= min(radius, size.y - 1 - y); ++dy) {
    for (int dx = max(-radius, -x); dx <= min(radius, size.x - 1 - x); ++dx) {
      const uchar4 value = halo[(ly + radius + dy) * HALO_SIDE + lx + radius + dx];
      const float3 off = convert_float3(value.xyz) - centre;
      const float closeness = space[(dy + radius) * (2 * radius + 1) + dx + radius];
      const float weight = exp2(fma(range, dot(off, off), closeness));
      weights += weight;
      sum += weight * off;
    }
  }
  vstore3(convert_uchar3_sat_rte(centre + sum / weights), y * size.x + x, dst);
}

// Four adjacent pixels an item, a vector of them a colour; the halo lies in planes, so that a tap is
// three loads of four bytes.
#define WIDE_ITEMS 16
#define WIDE_ROWS 8
#define WIDE_COLUMNS (4 * WIDE_ITEMS + 2 * MAX_RADIUS)
#define WIDE_HALO_ROWS (WIDE_ROWS + 2 * MAX_RADIUS)

__kernel __attribute__((reqd_work_group_size(WIDE_ITEMS, WIDE_ROWS, 1))) void bilateral_wide(
    __global const uchar *restrict src, const int2 size, const int radius, const float range,
    __global const float *restrict space, __global uchar *restrict dst) {
  __local uchar halo[3][WIDE_HALO_ROWS][WIDE_COLUMNS];
  const int lx = get_local_id(0), ly = get_local_id(1);
  const int left = get_group_id(0) * 4 * WIDE_ITEMS - radius;
  const int top = get_group_id(1) * WIDE_ROWS - radius;
  for (int row = ly; row < WIDE_ROWS + 2 * radius; row += WIDE_ROWS) {
    for (int column = lx; column < 4 * WIDE_ITEMS + 2 * radius; column += WIDE_ITEMS) {
      const int sx = clamp(left + column, 0, size.x - 1), sy = clamp(top + row, 0, size.y - 1);
      const uchar3 value = vload3(sy * size.x + sx, src);
      halo[0][row][column] = value.x;
      halo[1][row][column] = value.y;
      halo[2][row][column] = value.z;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int x = 4 * get_global_id(0), y = get_global_id(1);
  if (x >= size.x || y >= size.y) return;
  float4 centre[3], sum[3];
  for (int c = 0; c < 3; ++c) {
    centre[c] = convert_float4(vload4(0, &halo[c][ly + radius][4 * lx + radius]));
    sum[c] = (float4)(0.0f);
  }
  float4 weights = (float4)(0.0f);
  for (int dy = max(-radius, -y); dy <= min(radius, size.y - 1 - y); ++dy) {
    for (int dx = -radius; dx <= radius; ++dx) {
      float4 off[3], squares = (float4)(0.0f);
      for (int c = 0; c < 3; ++c) {
        off[c] = convert_float4(vload4(0, &halo[c][ly + radius + dy][4 * lx + radius + dx])) -
                 centre[c];
        squares = fma(off[c], off[c], squares);
      }
      const float closeness = space[(dy + radius) * (2 * radius + 1) + dx + radius];
      const int4 column = (int4)(0, 1, 2, 3) + (x + dx);
      const float4 weight = select((float4)(0.0f), exp2(fma(squares, range, closeness)),
                                   column >= 0 && column < size.x);
      weights += weight;
      for (int c = 0; c < 3; ++c) sum[c] = fma(weight, off[c], sum[c]);
    }
  }
  uchar result[3][4];
  for (int c = 0; c < 3; ++c) {
    vstore4(convert_uchar4_sat_rte(centre[c] + sum[c] / weights), 0, result[c]);
  }
  for (int k = 0; k < min(4, size.x - x); ++k) {
    vstore3((uchar3)(result[0][k], result[1][k], result[2][k]), y * size.x + x + k, dst);
  }
}
