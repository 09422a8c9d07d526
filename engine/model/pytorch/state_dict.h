// Finds a network's tensors in what was saved beside them.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/pytorch/objects.h"

namespace upscaled::pytorch {

// The dictionary of the network's tensors: the pickle's value itself, or what it keeps under one of
// the names that training programs use ("params_ema", ...; the averaged before the last).
// UNIMPLEMENTED: there is none.
absl::StatusOr<const Value*> FindStateDict(const Objects& objects);

}  // namespace upscaled::pytorch
