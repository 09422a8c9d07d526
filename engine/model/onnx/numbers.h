// The numbers a file computes in addition to the image: sides, positions, scales, folded weights.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// Numbers computed from the image's size are known by their values for images of a few sizes. Two
// are the same when these are; one is a linear form of a side when these are on a line. The first
// sizes are multiples of every alignment. If a file names its own size, all are of this size.
inline constexpr size_t kProbes = 8, kAlignedProbes = 3;
using PerProbe = std::array<int64_t, kProbes>;

// The probes of a side left free by the file.
inline constexpr PerProbe kProbeHeights = {20160, 60480, 100800, 20161, 20197, 40343, 60511, 80669};
inline constexpr PerProbe kProbeWidths = {40320, 80640, 141120, 40323, 60503, 20189, 80683, 100829};

constexpr PerProbe SameForAll(int64_t value) {
  PerProbe result = {};
  result.fill(value);
  return result;
}
// For images unchanged by padding to a multiple.
bool SameWhenAligned(const PerProbe& a, const PerProbe& b);

// A tensor for one size of the image.
struct Numbers {
  bool whole = true;  // integers and truth values; else a type of float
  std::vector<int64_t> dims;
  std::vector<double> values;  // row-major; whole ones up to 2^53
};

// One for each probe, or the same one for all.
using SizedNumbers = std::vector<Numbers>;

// Any of ONNX's types of numbers up to 64 bits, float16 among them. Errors as ReadFloats.
absl::StatusOr<Numbers> ReadNumbers(const TensorProto& tensor);
TensorProto ToTensor(const Numbers& numbers);

// Rounds towards zero and stops at +-2^53; 0 for NaN.
int64_t ToInteger(double value);

}  // namespace upscaled::onnx
