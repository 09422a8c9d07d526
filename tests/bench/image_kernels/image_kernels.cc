#include "tests/bench/image_kernels/image_kernels.h"

namespace upscaled {
namespace {

constexpr size_t kRgbBytes = 3;
constexpr size_t kPlanePixelBytes = 8 * sizeof(float);

size_t Pixels(const ImageWork& work) { return static_cast<size_t>(work.size.Area()); }

}  // namespace

size_t SourceBytes(const ImageWork& work) {
  switch (work.op) {
    case ImageOp::kCopy:
    case ImageOp::kTranspose:
    case ImageOp::kRowStats:
    case ImageOp::kColumnStats:
      return Pixels(work) * sizeof(float);
    case ImageOp::kBilateral:
    case ImageOp::kToPlanes:
      return Pixels(work) * kRgbBytes;
    case ImageOp::kFromPlanes:
      return Pixels(work) * kPlanePixelBytes;
    case ImageOp::kSquaredError:
    case ImageOp::kSsim:
      return 2 * Pixels(work) * sizeof(float);
  }
  return 0;
}

size_t ResultBytes(const ImageWork& work) {
  switch (work.op) {
    case ImageOp::kCopy:
    case ImageOp::kTranspose:
      return Pixels(work) * sizeof(float);
    case ImageOp::kBilateral:
    case ImageOp::kFromPlanes:
      return Pixels(work) * kRgbBytes;
    case ImageOp::kToPlanes:
      return Pixels(work) * kPlanePixelBytes;
    case ImageOp::kRowStats:
      return static_cast<size_t>(work.size.height) * sizeof(LineStats);
    case ImageOp::kColumnStats:
      return static_cast<size_t>(work.size.width) * sizeof(LineStats);
    case ImageOp::kSquaredError:
    case ImageOp::kSsim:
      return sizeof(double);
  }
  return 0;
}

}  // namespace upscaled
