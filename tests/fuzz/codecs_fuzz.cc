// Any bytes as an image: the header of every prefix, and the decoder that reads in
// portions.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>

#include "engine/image/codec.h"
#include "engine/image/image.h"

namespace upscaled {
namespace {

DecodeLimits SmallLimits() {
  return {.max_pixels = 1 << 20,
          .max_side_px = 4096,
          .max_metadata_bytes = 1 << 16,
          .max_jpeg_scans = 20,
          .is_caged = true};
}

void Require(bool condition) {
  if (!condition) std::abort();
}

// Gives between 1 and 64 bytes at a time, by the data themselves.
class PiecewiseSource final : public ByteSource {
 public:
  explicit PiecewiseSource(std::span<const uint8_t> bytes) : rest_(bytes) {}
  absl::StatusOr<size_t> Read(std::span<uint8_t> dst) override {
    if (rest_.empty()) return 0;
    const size_t piece = rest_[0] % 4 == 0 ? rest_[0] / 4 + 1 : 4096;
    const size_t count = std::min({piece, rest_.size(), dst.size()});
    std::copy_n(rest_.begin(), count, dst.begin());
    rest_ = rest_.subspan(count);
    return count;
  }

 private:
  std::span<const uint8_t> rest_;
};

void CheckHeader(std::span<const uint8_t> bytes, const DecodeLimits& limits,
                 const ImageHeader& decoded) {
  for (size_t length : {bytes.size(), bytes.size() / 2, bytes.size() / 3}) {
    const bool is_whole = length == bytes.size();
    const auto header = ParseImageHeader(bytes.first(length), limits, is_whole);
    Require(header.ok());
    Require(!is_whole || header->has_value());
    if (header->has_value()) Require((*header)->spec == decoded.spec);
  }
}

bool DecodeRows(const DecodeLimits& limits, ImageDecoder& decoder) {
  const ImageSpec spec = decoder.spec();
  Require(spec.size().Area() <= limits.max_pixels);
  ImageSpec band_spec = spec;
  band_spec.height_px = std::min(spec.height_px, 7);
  Image band(band_spec);
  for (int y = 0; y < spec.height_px; y += band_spec.height_px) {
    const int count = std::min(band_spec.height_px, spec.height_px - y);
    if (!decoder.ReadRows(band.mutable_view().Crop({0, 0, spec.width_px, count})).ok())
      return false;
  }
  return true;
}

// All frames of a file that moves.
void DecodeFrames(std::span<const uint8_t> bytes, DecodeLimits limits) {
  limits.frame = 0;
  limits.max_frames = 32;
  PiecewiseSource source(bytes);
  const auto decoder = OpenImageDecoder(source, limits);
  if (!decoder.ok() || !(*decoder)->header().animation.has_value()) return;
  CheckHeader(bytes, limits, (*decoder)->header());
  for (int left = (*decoder)->header().animation->frames; left > 0; --left) {
    if (!(*decoder)->NextFrame().ok() || !DecodeRows(limits, **decoder)) return;
  }
}

}  // namespace
}  // namespace upscaled

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled;
  const std::span<const uint8_t> bytes(data, size);
  const DecodeLimits limits = SmallLimits();
  DecodeFrames(bytes, limits);
  (void)ParseImageHeader(bytes, limits);
  (void)ParseImageHeader(bytes.first(size / 2), limits);
  PiecewiseSource source(bytes);
  const auto decoder = OpenImageDecoder(source, limits);
  if (!decoder.ok()) return 0;
  CheckHeader(bytes, limits, (*decoder)->header());
  DecodeRows(limits, **decoder);
  return 0;
}
