// Image kernels of one device: the operations around the networks, bound by memory rather than
// arithmetic. Each comes in steps, from the plain kernel to the tuned one. All devices implement
// the same operations on the same layouts. So one test compares every step with its definition,
// and `upscale-bench image` shows the gain of each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/bilateral.h"

namespace upscaled {

enum class ImageOp {
  kCopy,          // bytes, the yardstick of all others
  kBilateral,     // RGB in 8 bits: engine/image/bilateral.h
  kTranspose,     // a matrix of floats
  kToPlanes,      // RGB in 8 bits to pixels of 8 floats: value / 255, and zeros
  kFromPlanes,    // and back: clamped to 0..1, rounded half up
  kRowStats,      // a matrix of floats: LineStats of every row
  kColumnStats,   // and of every column
  kSquaredError,  // two planes of floats, one behind the other: the sum, a double
  kSsim,          // the same planes: the sum over all windows, a double; see engine/image/quality.h
};

// Statistics of the finite values of a row or column: 0, infinity and -infinity without finite
// values.
struct LineStats {
  float sum, min, max;
  float non_finite;  // how many values are infinite or NaN
};

struct ImageWork {
  ImageOp op;
  Size size;  // the image's, the matrix's or each plane's; for kSsim at least a window
  BilateralOptions bilateral = {};
};

// Source and result lie in rows without gaps.
size_t SourceBytes(const ImageWork& work);
size_t ResultBytes(const ImageWork& work);

struct ImageStep {
  ImageOp op;
  std::string_view name;  // its addition to the step before: "naive", "shared memory", ...
};

// Used by one thread at a time. A result depends only on the source and the step: sums run in one
// order with any number of threads.
class ImageKernels {
 public:
  virtual ~ImageKernels() = default;
  // The steps of an operation stand together, in order, the tuned one last.
  virtual std::span<const ImageStep> steps() const = 0;
  // Computes `work` with a step of its operation and returns the device's seconds for it, transfers
  // aside. The spans have SourceBytes and ResultBytes.
  virtual absl::StatusOr<double> Run(size_t step, const ImageWork& work,
                                     std::span<const uint8_t> src, std::span<uint8_t> dst) = 0;
};

}  // namespace upscaled
