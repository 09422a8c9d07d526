// Between wire messages and the engine's types. Whatever a client may set is checked here, and
// nowhere else.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/image/bilateral.h"
#include "engine/image/codec.h"
#include "engine/model/precision.h"
#include "engine/pipeline/upscaler.h"
#include "server/admission/limits.h"
#include "server/devices/device_supervisor.h"
#include "server/models/model_catalog.h"
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

upscale::v1::ImageFormat ToProto(ImageFormat format);
upscale::v1::Precision ToProto(Precision precision);
upscale::v1::Model ToProto(const CatalogEntry& entry, bool is_default);
upscale::v1::Device ToProto(const DeviceState& state);
upscale::v1::Limits ToProto(const Limits& limits);
google::protobuf::Duration ToProto(absl::Duration duration);

// A status of the engine with the reason, and where it differs the code, that it means to a client:
// what codecs reject is the image's fault, and their limits do not depend on the load.
absl::Status ExplainEngineError(const absl::Status& status);

}  // namespace upscaled::server
