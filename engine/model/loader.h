// From a file to a network, whatever its format.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled {

// Returns the ending of a file's name in lower case, with its dot: ".pth" of "X.PTH".
std::string ExtensionOf(const std::filesystem::path& file);

// Returns the .bin that belongs to an ncnn .param: of the same name, in either case.
std::filesystem::path BinOf(const std::filesystem::path& param);

// Returns whether the file's first bytes are those of a format that holds a whole network.
// NOT_FOUND when it cannot be opened.
absl::StatusOr<bool> IsNetworkFile(const std::filesystem::path& file);

// Looks at the file to find its format (ncnn: the .param, whose .bin lies beside it), loads and
// validates it. Scale and border come from the layers. `architecture`: of a file of weights alone
// (.safetensors, .pth), which says nothing of its layers; empty: as its tensors look (see
// architectures/architecture.h). Every error names the file; UNIMPLEMENTED is a file of a known
// format whose network has operations that we do not have, or an unknown format.
absl::StatusOr<Network> LoadNetworkFile(const std::filesystem::path& path,
                                        std::string_view architecture = "");

// The description of its network that a file of weights alone gives.
struct WeightsDescription {
  std::string architecture;
  int scale = 1;
  size_t tensors = 0;
};

// A file of weights alone. Errors as above; UNIMPLEMENTED for the files of whole networks.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenWeightsFile(const std::filesystem::path& path);

// Looks at names and shapes alone; `architecture` as in LoadNetworkFile. Errors without the file's
// name.
absl::StatusOr<WeightsDescription> DescribeWeights(const TensorFile& tensors,
                                                   std::string_view architecture = "");

}  // namespace upscaled
