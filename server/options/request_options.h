// The checked options of a request. Every option of clients is checked here, and nowhere else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/image/alpha.h"
#include "engine/image/bilateral.h"
#include "engine/image/codec.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"
#include "engine/pipeline/upscaler.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// Bits per sample of a result: as many as the source has, where the format holds them, or these.
enum class Depth : uint8_t { kSource, k8, k16 };

// UpscaleOptions after validation.
struct RequestOptions {
  std::string model;  // empty: the default
  int noise_level = kNoDenoise;
  bool auto_noise = true;  // chooses the noise level from the source's JPEG compression instead
  TargetSize target;
  std::optional<BilateralOptions> prefilter;
  bool tta = false;
  bool seamless = false;
  std::optional<ImageFormat> format;  // none: the source's
  EncodeOptions encode;               // but for its format
  bool has_quality = false;           // whether encode.quality was asked for
  bool has_compression = false;       // whether encode.compression was
  Depth depth = Depth::kSource;
  std::optional<Precision> precision;  // none: the server's
  int tile_px = 0;
  std::optional<AlphaMethod> alpha;         // none: the server's default
  std::optional<AlphaColour> alpha_colour;  // none: the server's default
  std::optional<bool> keep_colours;         // none: the server's default
  MetadataPolicy metadata = MetadataPolicy::kKeep;
  bool fill_damage = false;     // whether files that lack pixels are computed
  int frame = 0;                // of an animation, from 1; 0: all, which the format can hold
  bool frame_is_asked = false;  // and not what the format holds of an animation
};

// All of these return INVALID_ARGUMENT (kInvalidOption), naming field, value and range.
absl::StatusOr<RequestOptions> FromProto(const upscale::v1::UpscaleOptions& proto);
absl::StatusOr<int> NoiseLevelFromProto(int value);
absl::StatusOr<std::optional<Precision>> FromProto(upscale::v1::Precision proto);
// The id to use: `request_id`, or a fresh UUID when it is empty.
absl::StatusOr<std::string> ChooseRequestId(const std::string& request_id);

}  // namespace upscaled::server
