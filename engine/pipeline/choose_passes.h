// Chooses the networks that lead from a source to a result of a given size.
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
                                      // models behind which a resize makes the size
};

// Returns the factor that the models enlarge by together when no size is asked for.
int NativeScale(ModelLinks models);

// Returns the networks to run one after the other.
//
// A model whose only scale is 1 runs once. A model that enlarges runs while the result is not
// reached, and only the last of them more than once: x4 is x2 twice. The product of its scales is
// the smallest that reaches `result`, as the final resize shrinks, or the largest that it has. At
// scale 1 it runs if it has a network of scale 1, or for a noise level.
//
// The first model that has `noise_level` removes the noise, in its first pass. Further passes leave
// it alone (level -1, or 0 for want of it); a 1x model of a single level runs at that.
//
// INVALID_ARGUMENT: no model has the noise level, the models together enlarge by more than 16, or a
// further pass has no weights. Beyond a model's first factor no pass makes more than four times the
// result's pixels, whatever the aspect ratios: the resize does the rest.
absl::StatusOr<ChosenPasses> ChoosePasses(ModelLinks models, Size source, Size result,
                                          int noise_level);

}  // namespace upscaled
