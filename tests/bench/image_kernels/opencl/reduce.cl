// Statistics of the rows and columns of a matrix, and sums over pairs of planes. Every sum has one
// order, given by the size alone: a first pass over runs of fixed length, then one over the runs.

// Sum, smallest and largest of the finite values seen, and how many were not: a float4.
#define NOTHING ((float4)(0.0f, INFINITY, -INFINITY, 0.0f))

float4 take(float4 stats, float value) {
  const bool finite = isfinite(value);
  return (float4)(stats.x + (finite ? value : 0.0f), fmin(stats.y, finite ? value : INFINITY),
                  fmax(stats.z, finite ? value : -INFINITY), stats.w + (finite ? 0.0f : 1.0f));
}

float4 merge(float4 a, float4 b) {
  return (float4)(a.x + b.x, fmin(a.y, b.y), fmax(a.z, b.z), a.w + b.w);
}

float add(float a, float b) { return a + b; }

// Leaves the group's total in values[0]; the tree is the same for every run.
#define REDUCE(values, combine)                                                            \
  for (int half_group = GROUP / 2; half_group > 0; half_group /= 2) {                      \
    barrier(CLK_LOCAL_MEM_FENCE);                                                          \
    if (item < half_group) values[item] = combine(values[item], values[item + half_group]); \
  }

#define GROUP 128

// One item a row: neighbours read a row's length apart.
__kernel void row_stats_naive(__global const float *restrict src, const int2 size,
                              __global float4 *restrict dst) {
  const int y = get_global_id(0);
  if (y >= size.y) return;
  float4 stats = NOTHING;
  for (int x = 0; x < size.x; ++x) stats = take(stats, src[y * size.x + x]);
  dst[y] = stats;
}

// One group a row.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void row_stats_shared(
    __global const float *restrict src, const int2 size, __global float4 *restrict dst) {
  __local float4 all[GROUP];
  const int item = get_local_id(0), y = get_group_id(0);
  float4 stats = NOTHING;
  for (int x = item; x < size.x; x += GROUP) stats = take(stats, src[y * size.x + x]);
  all[item] = stats;
  REDUCE(all, merge)
  if (item == 0) dst[y] = all[0];
}

// Four adjacent values a step.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void row_stats_several(
    __global const float *restrict src, const int2 size, __global float4 *restrict dst) {
  __local float4 all[GROUP];
  const int item = get_local_id(0), y = get_group_id(0);
  __global const float *row = src + y * size.x;
  float4 stats = NOTHING;
  const int whole = size.x / 4;
  for (int i = item; i < whole; i += GROUP) {
    const float4 values = vload4(i, row);
    stats = take(take(take(take(stats, values.x), values.y), values.z), values.w);
  }
  if (4 * whole + item < size.x) stats = take(stats, row[4 * whole + item]);
  all[item] = stats;
  REDUCE(all, merge)
  if (item == 0) dst[y] = all[0];
}

// One item a column: neighbours read neighbours, but there are only as many items as columns.
__kernel void column_stats_naive(__global const float *restrict src, const int2 size,
                                 __global float4 *restrict dst) {
  const int x = get_global_id(0);
  if (x >= size.x) return;
  float4 stats = NOTHING;
  for (int y = 0; y < size.y; ++y) stats = take(stats, src[y * size.x + x]);
  dst[x] = stats;
}

// An item a column and run of RUN_ROWS rows; `runs` has a row of columns for each run.
#define RUN_ROWS 64

__kernel void column_stats_runs(__global const float *restrict src, const int2 size,
                                __global float4 *restrict runs) {
  const int x = get_global_id(0), run = get_global_id(1), end = min(size.y, (run + 1) * RUN_ROWS);
  if (x >= size.x || run * RUN_ROWS >= size.y) return;
  float4 stats = NOTHING;
  for (int y = run * RUN_ROWS; y < end; ++y) stats = take(stats, src[y * size.x + x]);
  runs[run * size.x + x] = stats;
}

// The same for four adjacent columns.
__kernel void column_stats_several(__global const float *restrict src, const int2 size,
                                   __global float4 *restrict runs) {
  const int x = 4 * get_global_id(0), run = get_global_id(1);
  const int end = min(size.y, (run + 1) * RUN_ROWS), count = min(4, size.x - x);
  if (x >= size.x || run * RUN_ROWS >= size.y) return;
  float4 stats[4] = {NOTHING, NOTHING, NOTHING, NOTHING};
  if (count == 4) {
    for (int y = run * RUN_ROWS; y < end; ++y) {
      const float4 values = vload4(0, src + y * size.x + x);
      stats[0] = take(stats[0], values.x);
      stats[1] = take(stats[1], values.y);
      stats[2] = take(stats[2], values.z);
      stats[3] = take(stats[3], values.w);
    }
  } else {
    for (int y = run * RUN_ROWS; y < end; ++y) {
      for (int k = 0; k < count; ++k) stats[k] = take(stats[k], src[y * size.x + x + k]);
    }
  }
  for (int k = 0; k < count; ++k) runs[run * size.x + x + k] = stats[k];
}

// The second pass: one item a column.
__kernel void column_stats_merge(__global const float4 *restrict runs, const int2 size,
                                 __global float4 *restrict dst) {
  const int x = get_global_id(0);
  if (x >= size.x) return;
  float4 stats = NOTHING;
  for (int run = 0; run * RUN_ROWS < size.y; ++run) stats = merge(stats, runs[run * size.x + x]);
  dst[x] = stats;
}

// Squared differences of two planes, which lie one behind the other: the sum of each run.
#define ERROR_RUN 2048

__kernel void squared_error_naive(__global const float *restrict src, const int count,
                                  __global float *restrict sums) {
  const int run = get_global_id(0), end = min(count, (run + 1) * ERROR_RUN);
  if (run * ERROR_RUN >= count) return;
  float sum = 0.0f;
  for (int i = run * ERROR_RUN; i < end; ++i) {
    const float off = src[i] - src[count + i];
    sum = fma(off, off, sum);
  }
  sums[run] = sum;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void squared_error_shared(
    __global const float *restrict src, const int count, __global float *restrict sums) {
  __local float all[GROUP];
  const int item = get_local_id(0), run = get_group_id(0);
  const int end = min(count, (run + 1) * ERROR_RUN);
  float sum = 0.0f;
  for (int i = run * ERROR_RUN + item; i < end; i += GROUP) {
    const float off = src[i] - src[count + i];
    sum = fma(off, off, sum);
  }
  all[item] = sum;
  REDUCE(all, add)
  if (item == 0) sums[run] = all[0];
}

// Four adjacent values a step.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void squared_error_several(
    __global const float *restrict src, const int count, __global float *restrict sums) {
  __local float all[GROUP];
  const int item = get_local_id(0), run = get_group_id(0);
  const int end = min(count, (run + 1) * ERROR_RUN);
  float4 sum = (float4)(0.0f);
  int i = run * ERROR_RUN + 4 * item;
  for (; i + 4 <= end; i += 4 * GROUP) {
    const float4 off = vload4(0, src + i) - vload4(0, src + count + i);
    sum = fma(off, off, sum);
  }
  for (; i < end; ++i) {  // the last item's share of what is no multiple of four
    const float off = src[i] - src[count + i];
    sum.x = fma(off, off, sum.x);
  }
  all[item] = (sum.x + sum.y) + (sum.z + sum.w);
  REDUCE(all, add)
  if (item == 0) sums[run] = all[0];
}

// SSIM (Wang et al., 2004) of two planes of 0..255: Gaussian windows of 11 x 11 that lie inside;
// `out` is the size in windows. Sums are of values less 128: variances do not change, and fp32 keeps
// the digits that their differences need.
#define WINDOW 11
#define SSIM_OFFSET 128.0f

float ssim_of(float a, float b, float aa, float bb, float ab) {
  const float c1 = (0.01f * 255) * (0.01f * 255), c2 = (0.03f * 255) * (0.03f * 255);
  const float variances = (aa - a * a) + (bb - b * b), covariance = ab - a * b;
  const float ma = a + SSIM_OFFSET, mb = b + SSIM_OFFSET;
  return (2 * ma * mb + c1) * (2 * covariance + c2) / ((ma * ma + mb * mb + c1) * (variances + c2));
}

// One item a window: all 121 places of it. Writes every window's value.
__kernel void ssim_naive(__global const float *restrict src, const int2 size, const int2 out,
                         __global const float *restrict window, __global float *restrict dst) {
  const int x = get_global_id(0), y = get_global_id(1);
  if (x >= out.x || y >= out.y) return;
  float a = 0, b = 0, aa = 0, bb = 0, ab = 0;
  for (int dy = 0; dy < WINDOW; ++dy) {
    for (int dx = 0; dx < WINDOW; ++dx) {
      const int at = (y + dy) * size.x + x + dx;
      const float weight = window[dy] * window[dx];
      const float va = src[at] - SSIM_OFFSET, vb = src[size.x * size.y + at] - SSIM_OFFSET;
      a = fma(weight, va, a);
      b = fma(weight, vb, b);
      aa = fma(weight, va * va, aa);
      bb = fma(weight, vb * vb, bb);
      ab = fma(weight, va * vb, ab);
    }
  }
  dst[y * out.x + x] = ssim_of(a, b, aa, bb, ab);
}

// The sum of each row of windows' values.
__kernel void ssim_sum_rows(__global const float *restrict values, const int2 out,
                            __global float *restrict sums) {
  const int y = get_global_id(0);
  if (y >= out.y) return;
  float sum = 0.0f;
  for (int x = 0; x < out.x; ++x) sum += values[y * out.x + x];
  sums[y] = sum;
}

// A group sums up SSIM_COLUMNS x SSIM_ROWS windows: the pixels below them are loaded once, the
// window is applied along rows, then along columns.
#define SSIM_COLUMNS 16
#define SSIM_ROWS 8
#define SSIM_BELOW (SSIM_ROWS + WINDOW - 1)

__kernel __attribute__((reqd_work_group_size(SSIM_COLUMNS, SSIM_ROWS, 1))) void ssim_shared(
    __global const float *restrict src, const int2 size, const int2 out,
    __global const float *restrict window, __global float *restrict sums) {
  __local float pixels[2][SSIM_BELOW][SSIM_COLUMNS + WINDOW - 1];
  __local float rows[5][SSIM_BELOW][SSIM_COLUMNS];
  __local float all[GROUP];
  const int lx = get_local_id(0), ly = get_local_id(1), item = ly * SSIM_COLUMNS + lx;
  const int left = get_group_id(0) * SSIM_COLUMNS, top = get_group_id(1) * SSIM_ROWS;
  for (int row = ly; row < SSIM_BELOW; row += SSIM_ROWS) {
    for (int column = lx; column < SSIM_COLUMNS + WINDOW - 1; column += SSIM_COLUMNS) {
      const int at = min(top + row, size.y - 1) * size.x + min(left + column, size.x - 1);
      pixels[0][row][column] = src[at] - SSIM_OFFSET;
      pixels[1][row][column] = src[size.x * size.y + at] - SSIM_OFFSET;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int row = ly; row < SSIM_BELOW; row += SSIM_ROWS) {
    float a = 0, b = 0, aa = 0, bb = 0, ab = 0;
    for (int i = 0; i < WINDOW; ++i) {
      const float va = pixels[0][row][lx + i], vb = pixels[1][row][lx + i];
      a = fma(window[i], va, a);
      b = fma(window[i], vb, b);
      aa = fma(window[i], va * va, aa);
      bb = fma(window[i], vb * vb, bb);
      ab = fma(window[i], va * vb, ab);
    }
    rows[0][row][lx] = a;
    rows[1][row][lx] = b;
    rows[2][row][lx] = aa;
    rows[3][row][lx] = bb;
    rows[4][row][lx] = ab;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float means[5] = {0, 0, 0, 0, 0};
  for (int i = 0; i < WINDOW; ++i) {
    for (int k = 0; k < 5; ++k) means[k] = fma(window[i], rows[k][ly + i][lx], means[k]);
  }
  const bool inside = left + lx < out.x && top + ly < out.y;
  all[item] = inside ? ssim_of(means[0], means[1], means[2], means[3], means[4]) : 0.0f;
  REDUCE(all, add)
  if (item == 0) sums[get_group_id(1) * get_num_groups(0) + get_group_id(0)] = all[0];
}
