#include "engine/model/versions.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/folder_files.h"
#include "engine/model/model_card.h"

namespace upscaled {
namespace {

using std::filesystem::path;

// 0 where the name is no number of a version: those have one spelling each.
int NumberOf(const path& folder) {
  const std::string name = folder.filename().string();
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && name.front() != '0' && number <= kMaxVersion ? std::max(number, 0) : 0;
}

// A folder holds files of well-known names, or a bare file.
absl::StatusOr<std::vector<ModelCard>> ReadWithoutCard(const path& folder, BareFiles& known) {
  ASSIGN_OR_RETURN(std::vector<FoundFile> files,
                   ReadFolderFiles(folder, FileNames::kOfFolder, known));
  std::vector<ModelCard> cards;
  for (FoundFile& file : files) {
    RETURN_IF_ERROR(file.cards.status());
    std::move(file.cards->begin(), file.cards->end(), std::back_inserter(cards));
  }
  return cards;
}

}  // namespace

std::vector<VersionFolder> ListVersions(const path& model_folder) {
  std::vector<VersionFolder> versions;
  std::error_code error;
  if (!std::filesystem::is_directory(model_folder, error) ||
      std::filesystem::exists(model_folder / std::string(kModelCardName), error)) {
    return versions;
  }
  const auto entries = ListFolder(model_folder);
  if (!entries.ok()) return versions;  // whoever looks for a model in it says so
  for (const path& entry : *entries) {
    const int number = NumberOf(entry);
    if (number > 0 && std::filesystem::is_directory(entry, error)) {
      versions.push_back({number, entry});
    }
  }
  std::sort(versions.begin(), versions.end(),
            [](const VersionFolder& a, const VersionFolder& b) { return a.number > b.number; });
  return versions;
}

std::string VersionName(std::string_view model, int number) {
  return absl::StrCat(ToAbsl(model), "@", number);
}

absl::StatusOr<ModelCard> ReadVersion(const VersionFolder& version, BareFiles& known) {
  std::error_code error;
  if (std::filesystem::exists(version.path / std::string(kModelCardName), error)) {
    return ReadModelCard(version.path, version.number);
  }
  ASSIGN_OR_RETURN(std::vector<ModelCard> cards, ReadWithoutCard(version.path, known));
  if (cards.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(version.path.string(), ": has ", cards.size(),
                                                   " models, a version must be one"));
  }
  cards[0].name = version.path.parent_path().filename().string();
  cards[0].version = version.number;
  return std::move(cards[0]);
}

}  // namespace upscaled
