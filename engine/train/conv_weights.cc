#include "engine/train/conv_weights.h"

#include <algorithm>

namespace upscaled::train {

template <typename Real>
void PackWeights(const ConvShape& shape, const Real* params, int in, int out, Real* packed) {
  std::fill_n(packed, size_t{1} * shape.taps() * in * out, Real{0});
  for (int tap = 0; tap < shape.taps(); ++tap, packed += in * out) {
    for (int o = 0; o < shape.out; ++o) {
      for (int i = 0; i < shape.in; ++i) packed[i * out + o] = *params++;
    }
  }
}

template <typename Real>
void PackTurnedWeights(const ConvShape& shape, const Real* params, int in, int out, Real* packed) {
  std::fill_n(packed, size_t{1} * shape.taps() * in * out, Real{0});
  for (int tap = shape.taps() - 1; tap >= 0; --tap) {
    for (int o = 0; o < shape.out; ++o, params += shape.in) {
      std::copy_n(params, shape.in, packed + (tap * out + o) * in);
    }
  }
}

template <typename Real>
void AddPacked(const ConvShape& shape, const Real* packed, int in, int out, Real* d_params) {
  for (int tap = 0; tap < shape.taps(); ++tap, packed += in * out) {
    for (int o = 0; o < shape.out; ++o) {
      for (int i = 0; i < shape.in; ++i) *d_params++ += packed[i * out + o];
    }
  }
}

template void PackWeights(const ConvShape&, const float*, int, int, float*);
template void PackWeights(const ConvShape&, const double*, int, int, double*);
template void PackTurnedWeights(const ConvShape&, const float*, int, int, float*);
template void PackTurnedWeights(const ConvShape&, const double*, int, int, double*);
template void AddPacked(const ConvShape&, const float*, int, int, float*);
template void AddPacked(const ConvShape&, const double*, int, int, double*);

}  // namespace upscaled::train
