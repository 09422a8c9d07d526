// 3x3 convolutions of stride 1 by Winograd's minimal filtering F(4, 3) along the rows (Lavin & Gray,
// "Fast Algorithms for Convolutional Neural Networks", 2015, section 4.1): 4 adjacent pixels from 6
// inputs take 6 multiplications a row and channel instead of 12. An item computes 8 output channels
// of one block of 4 pixels: 6 sums and 6 transformed inputs of float8, which registers still hold;
// the two-dimensional F(4x4, 3x3) would need 36 of each.
//
// Blocks lie on multiples of 4 from the layer's left edge and are computed whole: their rounding does
// not depend on the tile.
//
// Weights: [out plane][in plane][ky][in lane][6 points] of float8 over the output lanes.

#define POINT(point, lane) \
  sum[point] = fma(vload8(lane * 6 + point, row_weights), (float8)(v##point.s##lane), sum[point]);
#define LANE(lane) \
  POINT(0, lane) POINT(1, lane) POINT(2, lane) POINT(3, lane) POINT(4, lane) POINT(5, lane)

__kernel void winograd_row4(__global const STORAGE *restrict src, const int4 src_rect,
                            const int src_planes, __global const float *restrict weights,
                            RESULT_PARAMETERS, const int padding) {
  const int block = out.x / 4 + get_global_id(0), line = get_global_id(1);
  const int plane = get_global_id(2);
  const int x = block * 4, y = out.y + line;
  if (x >= out.x + out.z || line >= out.w || plane >= planes) return;
  float8 sum[6];
#pragma unroll
  for (int point = 0; point < 6; ++point) sum[point] = (float8)(0.0f);
  __global const float *row_weights = weights + plane * src_planes * 3 * 8 * 6 * 8;
  for (int src_plane = 0; src_plane < src_planes; ++src_plane) {
    for (int ky = 0; ky < 3; ++ky, row_weights += 8 * 6 * 8) {
      const int from = pixel_at(src_rect, src_plane, x - padding, y - padding + ky);
      const float8 d0 = LOAD8(from, src), d1 = LOAD8(from + 1, src), d2 = LOAD8(from + 2, src);
      const float8 d3 = LOAD8(from + 3, src), d4 = LOAD8(from + 4, src), d5 = LOAD8(from + 5, src);
      // B^T d with the points 0, 1, -1, 2, -2 and infinity.
      const float8 even1 = d4 - 4.0f * d2, odd1 = d3 - 4.0f * d1;
      const float8 even2 = d4 - d2, odd2 = 2.0f * (d3 - d1);
      const float8 v0 = 4.0f * d0 - 5.0f * d2 + d4;
      const float8 v1 = even1 + odd1, v2 = even1 - odd1;
      const float8 v3 = even2 + odd2, v4 = even2 - odd2;
      const float8 v5 = 4.0f * d1 - 5.0f * d3 + d5;
      LANE(0) LANE(1) LANE(2) LANE(3) LANE(4) LANE(5) LANE(6) LANE(7)
    }
  }
  // A^T sum
  const float8 even1 = sum[1] + sum[2], odd1 = sum[1] - sum[2];
  const float8 even2 = sum[3] + sum[4], odd2 = sum[3] - sum[4];
  const float8 bias = BIAS(plane);
  const float8 result[4] = {sum[0] + even1 + even2 + bias, odd1 + 2.0f * odd2 + bias,
                            even1 + 4.0f * even2 + bias, odd1 + 8.0f * odd2 + sum[5] + bias};
  const int to = pixel_at(dst_rect, plane, x, y);
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    if (x + p < out.x + out.z) STORE8(ACTIVATE(result[p], plane), to + p, dst);
  }
}
