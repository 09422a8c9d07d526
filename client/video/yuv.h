// Frames of luma and chroma planes, as films have them, and the way to RGB and back.
//
// A frame is its planes one after the other: Y, and unless it is mono Cb and Cr, row by row without
// gaps, one byte per sample at 8 bits, otherwise two in little-endian order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/base/geometry.h"
#include "engine/image/image.h"

namespace upscaled::client {

enum class Chroma : uint8_t { kMono, k420, k422, k444 };
// The place of chroma samples among luma samples, for 4:2:0: on the left column between two
// rows, in the middle of four, or on the top left one. 4:2:2 is always on the left column.
enum class Siting : uint8_t { kLeft, kCenter, kTopLeft };
enum class Matrix : uint8_t { kBt601, kBt709, kBt2020 };

// "601", "709" or "2020".
std::optional<Matrix> MatrixNamed(absl::string_view name);
const char* NameOf(Matrix matrix);
// The matrix of a film without a name for it: BT.601 up to 576 rows, BT.709 above.
Matrix MatrixByHeight(int height_px);

struct YuvFormat {
  Size size;
  Chroma chroma = Chroma::k420;
  Siting siting = Siting::kLeft;
  int depth = 8;            // bits a sample, 8..16
  bool full_range = false;  // else luma lies in 16..235 and chroma in 16..240, scaled by the depth
  Matrix matrix = Matrix::kBt709;

  Size chroma_size() const;  // 0x0 of mono
  size_t sample_bytes() const { return depth > 8 ? 2 : 1; }
  size_t frame_bytes() const;
};

// RGB, or gray of mono, of full range: 8 bits of 8, else 16. Colours outside of RGB are clamped.
// Chroma is interpolated by Catmull-Rom's cubic (Catmull and Rom, "A class of local interpolating
// splines", 1974) at its siting; edges are repeated. `frame` has format.frame_bytes().
Image YuvToRgb(std::span<const uint8_t> frame, const YuvFormat& format);

// The reverse: `image` has format.size, 8 or 16 bits and any channels; alpha is dropped. Chroma is
// reduced by the same cubic, stretched to twice its width.
std::string RgbToYuv(ImageView image, const YuvFormat& format);

// The chroma planes of a frame, resampled for luma of `size` by the same cubic. The cubic is
// stretched when planes shrink, up to twice its width. Places and siting are kept; planes of the
// same size are the frame's own. "" of mono.
std::string ResampleChroma(std::span<const uint8_t> frame, const YuvFormat& format, Size size);

}  // namespace upscaled::client
