// The plan of a request for one source, worked out here as a server would.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/codec.h"
#include "engine/model/repository.h"
#include "engine/pipeline/upscaler.h"
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

// The model of that name in `models`, or else of that alias, or the default one. NOT_FOUND lists
// the names there are; INVALID_ARGUMENT for several names.
absl::StatusOr<::upscale::v1::Model> FindModel(const ::upscale::v1::ListModelsResponse& models,
                                               const std::string& name);

// INVALID_ARGUMENT names an option, its value and the values that it may have: for values that a
// server refuses, and for options that an image over several servers cannot have.
absl::Status CheckOptions(const ::upscale::v1::UpscaleOptions& options);

// How these options have the source read. They passed CheckOptions.
DecodeLimits DecodeLimitsFor(const ::upscale::v1::UpscaleOptions& options);

// For options that passed CheckOptions. INVALID_ARGUMENT for options that contradict each other,
// the image or the model. Of scales and noise levels that the model has each of, but not together,
// a server may refuse the pass.
absl::StatusOr<SpreadPlan> PlanSpread(const ::upscale::v1::UpscaleOptions& options,
                                      const ::upscale::v1::Model& model, const ImageHeader& source);

}  // namespace upscaled::client
