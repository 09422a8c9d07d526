// A folder below the system's folder for temporary files.
#pragma once

#include <filesystem>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace upscaled::client {

// Only its user may open the folder. The destructor removes it with everything in it.
class TemporaryFolder {
 public:
  // Makes the folder PREFIX and six random characters. An error has the system's code, and names
  // the folder.
  static absl::StatusOr<TemporaryFolder> Make(absl::string_view prefix);
  TemporaryFolder(TemporaryFolder&& other) noexcept;
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;  // empty: moved from
};

}  // namespace upscaled::client
