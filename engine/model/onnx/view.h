// A layer's planes as a file looks at them: reshaped, transposed, repeated. Nothing moves until a
// node needs planes again, and then at once: five nodes become one pixel shuffle.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/onnx/numbers.h"

namespace upscaled::onnx {

// A digit of a position: of a channel, a row or a column of the layer.
struct Digit {
  enum Of : uint8_t { kChannel, kRow, kColumn, kNothing };  // kNothing: repeats the same
  Of of = kNothing;
  PerProbe count = SameForAll(1);
  int64_t stride = 0;  // places in the layer from one value of the digit to the next
};
bool operator==(const Digit& a, const Digit& b);

// The digits of one axis, the slowest first; none: the axis has one position.
using Axis = std::vector<Digit>;

using View = std::vector<Axis>;

// [1, channels, height, width].
View ViewPlanes(int channels, const PerProbe& height, const PerProbe& width);

PerProbe SideOf(const Axis& axis);

// To these sides; -1: the rest, 0: as before. UNIMPLEMENTED: no digit splits so.
absl::StatusOr<View> Reshape(const View& view, std::vector<PerProbe> sides);

// How planes come from a layer: channel i of `taps` is a channel of the layer, at a place in blocks
// of unshuffle x unshuffle pixels; then comes a pixel shuffle.
struct Rearrangement {
  struct Tap {
    int channel = 0, row = 0, column = 0;
  };
  std::vector<Tap> taps;
  int unshuffle = 1, shuffle = 1;
};
// Nullopt: the view is not [1, channels, height, width] of anything a View can say.
std::optional<Rearrangement> ToPlanes(const View& view);

// Whether the axes have all of the layer's channels, so many, and nothing else.
bool AreChannels(const View& view, const std::vector<int64_t>& axes, int channels);
// Whether no other axes have any rows and columns.
bool HaveRowsAndColumns(const View& view, const std::vector<int64_t>& axes);

}  // namespace upscaled::onnx
