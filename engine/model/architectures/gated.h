// The gate of MoSR's blocks and of their successors': Mish of half the channels, times the others,
// of which the last are mixed.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/network_builder.h"
#include "engine/model/quote.h"

namespace upscaled {

// Fails and returns false if `y`, the result of layer `name`, has less than twice `channels`.
inline bool CheckGate(NetworkBuilder& builder, int y, int channels, const std::string& name) {
  if (builder.Channels(y) / 2 >= channels) return true;
  builder.Fail(
      absl::InvalidArgumentError(absl::StrCat(Quote(name), " gives ", builder.Channels(y),
                                              " channels, must give at least ", 2 * channels)));
  return false;
}

// The channels of `y`: a gate, the unchanged ones, and the last `mixed`, which `mix` turns into as
// many.
template <typename Mix>
int AddGate(NetworkBuilder& builder, int y, int mixed, const Mix& mix) {
  const int hidden = builder.Channels(y) / 2;
  const int gate = builder.Activate(builder.Slice(y, 0, hidden), Activation::kMish);
  int values = mix(builder.Slice(y, 2 * hidden - mixed, mixed));
  if (mixed < hidden) {
    values = builder.Concat({builder.Slice(y, hidden, hidden - mixed), values});
  }
  return builder.Mul(gate, values);
}

}  // namespace upscaled
