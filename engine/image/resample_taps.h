// The weights of a one-dimensional resize. Private to engine/image.
#pragma once

#include <vector>

#include "engine/image/resample.h"

namespace upscaled {

// Result sample i is the sum over k < count of weights[offset + k] * source[first + k].
struct Taps {
  int first = 0;
  int count = 0;
  size_t offset = 0;

  int last() const { return first + count - 1; }
};

struct TapTable {
  std::vector<Taps> taps;  // one per result sample; `first` and `last` never decrease
  std::vector<float> weights;

  const float* weights_of(const Taps& t) const { return &weights[t.offset]; }
};

// A part of a line of samples.
struct Stretch {
  int begin = 0, length = 0;
};

// Resizes the samples `part` of `source_length` ones. Taps reach beyond the part, not the line.
TapTable ComputeTaps(int source_length, Stretch part, int result_length, Filter filter);

}  // namespace upscaled
