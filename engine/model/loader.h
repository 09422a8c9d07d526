// From a file of any known format to a network.
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

// Returns the .bin of an ncnn .param: of the same name, in either case.
std::filesystem::path BinOf(const std::filesystem::path& param);

// Returns whether the file begins as a format of whole networks does. NOT_FOUND when it cannot be
// opened.
absl::StatusOr<bool> IsNetworkFile(const std::filesystem::path& file);

// Looks at the file to find its format (ncnn: the .param, with its .bin next to it), loads and
// validates it. Scale and border come from the layers. `architecture`: of a file with only weights
// (.safetensors, .pth), without a word of its layers; empty: as its tensors look (see
// architectures/architecture.h). Every error names the file; UNIMPLEMENTED is a file of a known
// format with a network of foreign operations, or an unknown format.
absl::StatusOr<Network> LoadNetworkFile(const std::filesystem::path& path,
                                        std::string_view architecture = "");

// The description of its network in a file of weights only.
struct WeightsDescription {
  std::string architecture;
  int scale = 1;
  size_t tensors = 0;
};

// A file of weights only. Errors as above; UNIMPLEMENTED for the files of whole networks.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenWeightsFile(const std::filesystem::path& path);

// Looks only at names and shapes; `architecture` as in LoadNetworkFile. Errors without the file's
// name.
absl::StatusOr<WeightsDescription> DescribeWeights(const TensorFile& tensors,
                                                   std::string_view architecture = "");

}  // namespace upscaled
