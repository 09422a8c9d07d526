// The networks known by the names and shapes of their tensors: files of weights say nothing else of
// them.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/architectures/network_builder.h"
#include "engine/model/network.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

struct Architecture {
  std::string_view name;  // what a card calls it, and the family of a model without one
  // Whether the tensors look like it; never, where they cannot tell it from another.
  bool (*recognises)(const TensorFile& file);
  // Result pixels per source pixel along an axis. INVALID_ARGUMENT: the tensors are none of it.
  absl::StatusOr<int> (*scale)(const TensorFile& file);
  void (*build)(NetworkBuilder& builder);
};

// The one a card names, or, if `name` is empty, the one the tensors look like. INVALID_ARGUMENT:
// the name is unknown. UNIMPLEMENTED: the tensors look like no network of ours; a known foreign one
// is named with its needs.
absl::StatusOr<const Architecture*> FindArchitecture(const TensorFile& file, std::string_view name);

// The validated network of the file's tensors; `name` as above.
absl::StatusOr<Network> BuildNetwork(const TensorFile& file, std::string_view name);

// INVALID_ARGUMENT: there is no architecture of this name.
absl::Status CheckArchitecture(std::string_view name);

}  // namespace upscaled
