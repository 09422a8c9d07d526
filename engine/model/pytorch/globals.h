// The list of a pickle's allowed classes and functions: the needs of a file of weights. None is
// executed; each is an entry here with its result.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/pytorch/objects.h"

namespace upscaled::pytorch {

// The value for `module.name`. UNIMPLEMENTED when the list has no such line.
absl::StatusOr<Value> FindGlobal(std::string_view module, std::string_view name);

// The result of calling `callee` with the tuple `arguments`. INVALID_ARGUMENT: it cannot be called,
// or not with these.
absl::StatusOr<Value> Call(const Value& callee, const Value& arguments, Objects& objects);

// The storage of a tuple ('storage', class, key, device, count), as torch.save writes data kept
// next to the pickle. INVALID_ARGUMENT: it is no such tuple.
absl::StatusOr<Value> LoadPersistent(const Value& id, Objects& objects);

}  // namespace upscaled::pytorch
