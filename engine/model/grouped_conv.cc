#include "engine/model/grouped_conv.h"

#include <algorithm>
#include <cstdint>

#include "engine/model/without_weights.h"

namespace upscaled {

Layer AsDenseConv(const Layer& grouped) {
  Layer dense = WithoutWeights(grouped);
  dense.op = Op::kConv;
  dense.groups = 1;
  if (grouped.weights.empty()) return dense;
  const int64_t taps = int64_t{1} * grouped.kernel_px * grouped.kernel_px;
  const int64_t group_out = grouped.out_channels / grouped.groups;
  const int64_t run = grouped.in_channels / grouped.groups * taps;
  dense.weights.assign(grouped.weights.size() * grouped.groups, 0.0f);
  for (int64_t out = 0; out < grouped.out_channels; ++out) {
    const int64_t place = (out * grouped.groups + out / group_out) * run;
    std::copy_n(grouped.weights.begin() + out * run, run, dense.weights.begin() + place);
  }
  return dense;
}

}  // namespace upscaled
