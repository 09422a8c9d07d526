// The models in one folder's files, without its subfolders.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/bare_files.h"
#include "engine/model/known_layouts.h"
#include "engine/model/repository.h"

namespace upscaled {

struct FoundFile {
  std::filesystem::path entry;                   // the file, or the folder of files of known names
  absl::StatusOr<std::vector<ModelCard>> cards;  // or why it is no model
};

// Returns models by known names (RecogniseFolder) first, then each bare file (RecogniseFile) in
// order of name. Leaves out hidden files (they are being written) and files other than models.
// NOT_FOUND when the folder cannot be read.
absl::StatusOr<std::vector<FoundFile>> ReadFolderFiles(const std::filesystem::path& folder,
                                                       FileNames names, BareFiles& known);

}  // namespace upscaled
