// The two ends of a global pooling.

// As kExactRun of ChannelSums: sums of so many values fit a double, too.
#define RUN 4096

// Adds up `part` of a tensor: one item a plane, row and run of RUN pixels. Values are rounded to
// multiples of 2^-24 within +-2^16, as ChannelSums rounds them, and summed as integers: no order and
// no grouping changes the result. Sums: [plane][row][run] of long8.
__kernel void sum_runs(__global const STORAGE *restrict src, const int4 rect, const int4 part,
                       const int planes, __global long *restrict sums) {
  const int run = get_global_id(0), row = get_global_id(1), plane = get_global_id(2);
  const int runs = (part.z + RUN - 1) / RUN;
  if (run >= runs || row >= part.w || plane >= planes) return;
  const int end = min(part.z, (run + 1) * RUN), from = pixel_at(rect, plane, part.x, part.y + row);
  long8 sum = (long8)(0);
  for (int x = run * RUN; x < end; ++x) {
    const float8 value = LOAD8(from + x, src);
    const float8 below = select((float8)(65536.0f), value, value < 65536.0f);  // NaN, too
    sum += convert_long8_rte(max(below, -65536.0f) * 16777216.0f);
  }
  vstore8(sum, (plane * part.w + row) * runs + run, sums);
}

// The one pixel of a pooled layer, from the means of its channels.
__kernel void load_means(__global const float *restrict means, RESULT_PARAMETERS) {
  const int plane = get_global_id(2);
  if (get_global_id(0) > 0 || get_global_id(1) > 0 || plane >= planes) return;
  STORE8(ACTIVATE(vload8(plane, means), plane), pixel_at(dst_rect, plane, 0, 0), dst);
}
