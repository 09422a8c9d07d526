// Errors with the name of their file.
#pragma once

#include <filesystem>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace upscaled {

inline absl::Status OfFile(const std::filesystem::path& file, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(file.string(), ": ", status.message()));
}

template <typename Result>
absl::StatusOr<Result> OfFile(const std::filesystem::path& file, absl::StatusOr<Result> result) {
  if (result.ok()) return result;
  return OfFile(file, result.status());
}

}  // namespace upscaled
