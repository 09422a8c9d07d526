// Compiled programs on disk, so that a second start need not compile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled::opencl {

// A file per program, named by its key. Files are written under another name and renamed, so
// several processes may share a folder and readers never see half a file. Thread safe.
class ProgramCache {
 public:
  // Makes the folder if it is missing. PERMISSION_DENIED when others may write to it, since what
  // lies in it is run; or what the system says when it cannot be made.
  static absl::StatusOr<ProgramCache> Open(const std::filesystem::path& folder);

  // SHA-256, as 64 hexadecimal digits, of everything a compiled program depends on.
  static std::string Key(std::span<const std::string_view> parts);

  // Nothing for a program that is not there, or whose file is damaged or of another key.
  std::optional<std::vector<uint8_t>> Load(const std::string& key) const;
  absl::Status Store(const std::string& key, std::span<const uint8_t> program) const;

  // Where the program of this key lies.
  std::filesystem::path PathOf(const std::string& key) const;

 private:
  explicit ProgramCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

}  // namespace upscaled::opencl
