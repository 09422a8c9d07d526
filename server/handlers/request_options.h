// The options of a request, checked. Whatever a client may set is checked here, and nowhere else.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/image/bilateral.h"
#include "engine/image/codec.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"
#include "engine/pipeline/upscaler.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// UpscaleOptions after validation.
struct RequestOptions {
  std::string model;  // empty: the default
  int noise_level = kNoDenoise;
  TargetSize target;
  std::optional<BilateralOptions> prefilter;
  bool tta = false;
  std::optional<ImageFormat> format;  // none: the source's
  EncodeOptions encode;               // but for its format
  bool keep_16_bit = false;
  std::optional<Precision> precision;  // none: the server's
  int tile_px = 0;
};

// All of these return INVALID_ARGUMENT (kInvalidOption), naming field, value and range.
absl::StatusOr<RequestOptions> FromProto(const upscale::v1::UpscaleOptions& proto);
absl::StatusOr<int> NoiseLevelFromProto(int value);
absl::StatusOr<std::optional<Precision>> FromProto(upscale::v1::Precision proto);
// The id to use: `request_id`, or a fresh UUID when it is empty.
absl::StatusOr<std::string> ChooseRequestId(const std::string& request_id);

}  // namespace upscaled::server
