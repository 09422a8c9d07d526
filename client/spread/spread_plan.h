// The plan of a request for one source, worked out here as a server would.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "engine/model/repository.h"
#include "engine/pipeline/upscaler.h"
#include "server/options/request_options.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::client {

struct SpreadPlan {
  Rect part;  // of the source, which the result shows
  Size result;
  EncodeOptions encode;
  UpscaleOptions upscale;  // but for its concurrency
  // Scale and noise level of each pass, in order; empty: no network is needed.
  std::vector<ModelVariant> passes;
  int noise_level = kNoDenoise;  // that the passes remove
  std::vector<std::string> warnings;
};

// The model of this name in `models`, or of this alias, or the default one. NOT_FOUND lists the
// names there are; INVALID_ARGUMENT for several names.
absl::StatusOr<::upscale::v1::Model> FindModel(const ::upscale::v1::ListModelsResponse& models,
                                               const std::string& name);

// Checks and reads the options as a server does. INVALID_ARGUMENT names an option, its value and
// the accepted ones, also for an option that an image over several servers cannot have.
absl::StatusOr<server::RequestOptions> ReadOptions(const ::upscale::v1::UpscaleOptions& options);

// How these options have the source read.
DecodeLimits DecodeLimitsFor(const server::RequestOptions& options);

// INVALID_ARGUMENT for options that contradict each other, the image or the model. A server of an
// earlier release may still refuse a pass if the model has its scale and its noise level, but not
// together.
absl::StatusOr<SpreadPlan> PlanSpread(const server::RequestOptions& options,
                                      const ::upscale::v1::Model& model, const ImageHeader& source);

}  // namespace upscaled::client
