// Chooses the networks between a source and a result of a given size.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/model/repository.h"

namespace upscaled {

// The models of one request, run one after the other; most requests name one.
using ModelLinks = std::span<const ModelCard* const>;

struct ChosenPasses {
  std::vector<ModelPass> passes;      // in order; empty: the source is resized, if anything
  std::vector<std::string> warnings;  // sentences for the caller: models that did not run, and 1x
                                      // models with a resize behind them
};

// Returns the models' factor together, for requests without a size.
int NativeScale(ModelLinks models);

// Returns the networks to run one after the other.
//
// A model with no scale but 1 runs once. A model that enlarges runs while the result is not
// reached. Only the last of them runs more than once: x4 is x2 twice. The product of its scales is
// the smallest at or above `result`, since the final resize shrinks, or its largest. At scale 1 it
// runs if it has a network of scale 1, or for a noise level.
//
// The first model with `noise_level` removes the noise, in its first pass. Further passes leave it
// (level -1, or 0 without such a level); a 1x model of a single level runs at that level.
//
// INVALID_ARGUMENT: no model has the noise level, the models together enlarge by more than 16, or a
// further pass has no weights. Beyond a model's first factor no pass makes more than four times the
// result's pixels, at any aspect ratio: the resize does the rest.
absl::StatusOr<ChosenPasses> ChoosePasses(ModelLinks models, Size source, Size result,
                                          int noise_level);

}  // namespace upscaled
