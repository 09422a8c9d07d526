// A 3x3 convolution, trained as four: SPAN's, and a part of RTMoSR's.
// Wan et al., "Swift Parameter-free Attention Network for Efficient Super-Resolution", 2024
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "engine/model/architectures/network_builder.h"

namespace upscaled {

inline constexpr int kTaps = 9;  // of a 3x3 kernel

// Adds to a result's filter `row` ([in][tap]) and to its `bias` a 1x1 convolution, `first`
// ([middle][in]) with `first_bias`, seen through the result's filter of a 3x3 one, `late`
// ([middle][tap]).
template <typename Value>
void AddInnerConv(const Value* late, const std::vector<float>& first,
                  const std::vector<float>& first_bias, std::vector<double>& row, double& bias) {
  const size_t middle = first_bias.size(), in = row.size() / kTaps;
  for (size_t m = 0; m < middle; ++m) {
    for (size_t tap = 0; tap < kTaps; ++tap) {
      const double weight = late[m * kTaps + tap];
      bias += weight * first_bias[m];
      for (size_t i = 0; i < in; ++i) row[i * kTaps + tap] += weight * first[m * in + i];
    }
  }
}

// Returns the one convolution equal to NAME.conv.0 to 2 and NAME.sk. Leaves NAME.eval_conv aside;
// training made it of them at some time. Without weights after an error.
Layer ReadTrainedConv(NetworkBuilder& builder, std::string_view name);

}  // namespace upscaled
