// The files of torch.save (.pth, .pt, .ckpt): a zip file of a pickle and of storages, or, before
// PyTorch 1.6, several pickles with the storages behind them.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

// The tensors of the state_dict in the file. No Python is run, and nothing of the file's executed:
// see pytorch/unpickler.h. INVALID_ARGUMENT: damaged or not as torch.save writes it; UNIMPLEMENTED:
// it names a class, a function or an opcode not needed by a file of weights; RESOURCE_EXHAUSTED: a
// limit of limits.h.
absl::StatusOr<std::unique_ptr<TensorFile>> ParsePytorch(std::string bytes);

// Whether a file with this beginning may be one of the two kinds.
bool LooksLikePytorch(std::string_view head);

}  // namespace upscaled
