#include "engine/model/architectures/dysample.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr float kOffsetFactor = 0.5f;  // of what the scope leaves of an offset

std::string SamplePlacesOf(const std::string& name) { return name + ".init_pos"; }

// dx of every place of every share of the channels, and then dy.
int64_t OffsetsPerShare(int scale) { return int64_t{2} * scale * scale; }

}  // namespace

bool HasDySample(const TensorFile& file, const std::string& name) {
  return file.Has(SamplePlacesOf(name));
}

absl::StatusOr<int> DySampleScale(const TensorFile& file, const std::string& name) {
  ASSIGN_OR_RETURN(const std::vector<float> places, file.Read(SamplePlacesOf(name)));
  // The first place of s lies at (1 - s) / (2 s), for a pixel of width 1.
  const double scale = places.empty() ? 0 : std::round(1 / (2.0 * places[0] + 1));
  const bool sound =
      scale >= 1 && scale <= kMaxScale &&
      static_cast<int64_t>(places.size()) % OffsetsPerShare(static_cast<int>(scale)) == 0;
  if (sound) return static_cast<int>(scale);
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quote(SamplePlacesOf(name)), " of ", places.size(),
                   " values has the places of samples of no scale of 1..", kMaxScale));
}

int AddDySample(NetworkBuilder& builder, int input, const std::string& name) {
  const absl::StatusOr<int> scale = DySampleScale(builder.file(), name);
  builder.Fail(scale.status());
  const int64_t offsets = builder.Shape(SamplePlacesOf(name), 4)[1];
  std::vector<float> places = builder.Read(SamplePlacesOf(name), {1, offsets, 1, 1});
  if (!builder.ok()) return 0;
  const int64_t shares = offsets / OffsetsPerShare(*scale);
  const int offset = builder.Conv(input, name + ".offset", {});
  const int scope = builder.Conv(input, name + ".scope", {.activation = Activation::kSigmoid});
  if (builder.ok() && builder.Channels(offset) != offsets) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(Quote(name + ".offset"), " gives ",
                                                         builder.Channels(offset),
                                                         " channels, must give ", offsets)));
  }
  if (!builder.ok()) return 0;
  const int moved = builder.Affine(builder.Mul(offset, scope), {kOffsetFactor}, std::move(places));
  const int x = builder.Sample(input, moved, static_cast<int>(shares), *scale);
  return builder.file().Has(name + ".end_conv.weight") ? builder.Conv(x, name + ".end_conv", {})
                                                       : x;
}

}  // namespace upscaled
