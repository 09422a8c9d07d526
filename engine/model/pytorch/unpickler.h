// Reads pickles as torch.save writes them, and no others: an interpreter of the few opcodes that
// take values apart from calling anything. Python is not involved, and nothing is executed.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/pytorch/objects.h"

namespace upscaled::pytorch {

// The first pickle of `bytes`, which may go on behind it. Takes memory and time in proportion to
// the pickle's bytes, which limits.h caps. UNIMPLEMENTED names the opcode or global that is not
// allowed, INVALID_ARGUMENT what is wrong, both the byte; RESOURCE_EXHAUSTED the limit.
absl::StatusOr<Objects> Unpickle(std::string_view bytes);

}  // namespace upscaled::pytorch
