#include "engine/model/folder_files.h"

#include <system_error>
#include <utility>

#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/bare_models.h"

namespace upscaled {

using std::filesystem::path;

absl::StatusOr<std::vector<FoundFile>> ReadFolderFiles(const path& folder, FileNames names,
                                                       BareFiles& known) {
  ASSIGN_OR_RETURN(const std::vector<path> entries, ListFolder(folder));
  std::vector<FoundFile> found;
  found.push_back({folder, RecogniseFolder(folder, names)});
  for (const path& entry : entries) {
    std::error_code error;
    if (entry.filename().string().starts_with('.') || IsKnownFile(entry, names) ||
        std::filesystem::is_directory(entry, error)) {
      continue;
    }
    absl::StatusOr<std::vector<ModelCard>> cards = RecogniseFile(entry, known);
    if (cards.ok() && cards->empty()) continue;
    found.push_back({entry, std::move(cards)});
  }
  return found;
}

}  // namespace upscaled
