// Reads pickles as torch.save writes them, and no others: an interpreter of the few opcodes for
// values without a call. Python is not involved, and nothing is executed.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/pytorch/objects.h"

namespace upscaled::pytorch {

// The first pickle of `bytes`; more may follow. Takes memory and time in proportion to the pickle's
// bytes; limits.h caps these. UNIMPLEMENTED names the forbidden opcode or global, INVALID_ARGUMENT
// the fault, both the byte; RESOURCE_EXHAUSTED the limit.
absl::StatusOr<Objects> Unpickle(std::string_view bytes);

}  // namespace upscaled::pytorch
