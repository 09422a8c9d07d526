// The versions of a model: numbered folders in the model's, NAME/1, NAME/2 and so on, each with a
// model's folder or a bare file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/bare_files.h"
#include "engine/model/repository.h"

namespace upscaled {

struct VersionFolder {
  int number = 1;
  std::filesystem::path path;
};

// Those in a model's folder, the newest first. None in a folder with a card: the folder is the
// model.
std::vector<VersionFolder> ListVersions(const std::filesystem::path& model_folder);

// "NAME@2", a version's name in requests.
std::string VersionName(std::string_view model, int number);

// The one model in the folder, named as the folder's parent. INVALID_ARGUMENT: there is no model,
// there are several, or its card has another version; otherwise the card's and the file's errors.
// `known`: as in RecogniseFile.
absl::StatusOr<ModelCard> ReadVersion(const VersionFolder& version, BareFiles& known);

}  // namespace upscaled
