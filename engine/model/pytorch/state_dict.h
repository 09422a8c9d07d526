// Finds a network's tensors among the other saved values.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/pytorch/objects.h"

namespace upscaled::pytorch {

// The dictionary of the network's tensors: the pickle's value itself, or its value under one of the
// training programs' names ("params_ema", ...; the averaged before the last). UNIMPLEMENTED: there
// is no such dictionary.
absl::StatusOr<const Value*> FindStateDict(const Objects& objects);

}  // namespace upscaled::pytorch
