// In front of every program. Options: HALF_STORAGE for tensors of half instead of float; sums and
// weights are float either way.
//
// Tensors are planes of 8 channels, a pixel 8 adjacent values, rows without gaps. A tensor holds a
// rectangle of its layer, given as int4 (x, y, width, height) in whole-layer coordinates; what lies
// in it but outside the layer is zero. Lanes beyond the last channel hold finite values.
//
// Where a multiply-add shall be one operation it says fma: were the compiler to choose, a pixel's
// bits could depend on where it lies in a work-group.
#pragma OPENCL FP_CONTRACT OFF

#ifdef HALF_STORAGE
#define STORAGE half
#define LOAD8(index, pointer) vload_half8(index, pointer)
#define LOAD1(index, pointer) vload_half(index, pointer)
#define STORE8(value, index, pointer) vstore_half8_rte(value, index, pointer)
#define STORE1(value, index, pointer) vstore_half_rte(value, index, pointer)
#else
#define STORAGE float
#define LOAD8(index, pointer) vload8(index, pointer)
#define LOAD1(index, pointer) (pointer)[index]
#define STORE8(value, index, pointer) vstore8(value, index, pointer)
#define STORE1(value, index, pointer) (pointer)[index] = (value)
#endif

// Index of a pixel's 8 channels in a tensor, in units of 8 values.
int pixel_at(int4 rect, int plane, int x, int y) {
  return (plane * rect.w + y - rect.y) * rect.z + x - rect.x;
}

// The result of a kernel: the rectangle `out` of a tensor, the item's plane is get_global_id(2).
#define RESULT_PARAMETERS                                                            \
  __global STORAGE *restrict dst, const int4 dst_rect, const int4 out, const int planes, \
      __global const float *restrict constants, const int activation, const float clip_min, \
      const float clip_max

// Three float8 a plane: what kAffine and kPixelNorm multiply with, the bias, the slopes of negative values.
#define FACTOR(plane) vload8((plane)*3, constants)
#define BIAS(plane) vload8((plane)*3 + 1, constants)
#define SLOPE(plane) vload8((plane)*3 + 2, constants)

// As constants.cc numbers them.
#define RELU 1
#define SLOPED 2
#define SIGMOID 3
#define CLIP 4
#define SILU 5
#define MISH 6
#define GELU 7
#define GELU_TANH 8
#define SOFTPLUS 9

// v * tanh(log(1 + e)) of e = exp(v), from which on 20 the tangent is 1.
float8 mish(float8 v) {
  const float8 e = exp(fmin(v, 20.0f)), n = e * (e + 2.0f);
  return v * (n / (n + 2.0f));
}

// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)).
float8 gelu_tanh(float8 v) {
  return v / (1.0f + exp(-1.59576912f * (v + 0.044715f * v * v * v)));
}

float8 activate(float8 v, float8 slope, int activation, float clip_min, float clip_max) {
  switch (activation) {
    case RELU:
      return select(v, (float8)(0.0f), v < 0.0f);
    case SLOPED:
      return select(v, v * slope, v < 0.0f);
    case SIGMOID:
      return 1.0f / (1.0f + exp(-v));
    case CLIP:
      return clamp(v, clip_min, clip_max);
    case SILU:
      return v / (1.0f + exp(-v));
    case MISH:
      return mish(v);
    case GELU:
      return 0.5f * v * erfc(-M_SQRT1_2_F * v);
    case GELU_TANH:
      return gelu_tanh(v);
    case SOFTPLUS:
      return fmax(v, 0.0f) + log1p(exp(-fabs(v)));
    default:
      return v;
  }
}

#define ACTIVATE(value, plane) activate(value, SLOPE(plane), activation, clip_min, clip_max)
