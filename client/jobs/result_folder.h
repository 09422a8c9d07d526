// Results by what they follow from: each file's name is its content address, as the server tells
// it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/image_io.h"

namespace upscaled::client {

// Files appear whole, and are then never changed. Workers on several machines may share one. Thread
// safe.
class ResultFolder {
 public:
  // Makes `folder` and its errors/, for this user alone, where there are none. Removes what killed
  // workers have left: files that were not finished, and have not grown for a day.
  static absl::StatusOr<ResultFolder> Open(const std::filesystem::path& folder);

  std::filesystem::path PathOf(const std::string& name) const { return folder_ / name; }
  bool Has(const std::string& name) const;
  // Of `name`, unless the sink is renamed before it is committed.
  absl::StatusOr<FileSink> Create(const std::string& name) const;
  // errors/`job`.json: why the job has no result and never will.
  absl::Status WriteError(const std::string& job, const std::string& json) const;

 private:
  explicit ResultFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

}  // namespace upscaled::client
