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
  std::vector<std::string> warnings;  // ChosenPasses::warnings
};

// The model of that name in `models`, or else of that alias, or the default one. NOT_FOUND lists
// the names there are; INVALID_ARGUMENT for several names.
absl::StatusOr<::upscale::v1::Model> FindModel(const ::upscale::v1::ListModelsResponse& models,
                                               const std::string& name);

// INVALID_ARGUMENT for options that contradict each other, the image or the model. Of scales and
// noise levels that the model has each of, but not together, a server may refuse the pass.
absl::StatusOr<SpreadPlan> PlanSpread(const ::upscale::v1::UpscaleOptions& options,
                                      const ::upscale::v1::Model& model, const ImageHeader& source);

}  // namespace upscaled::client
