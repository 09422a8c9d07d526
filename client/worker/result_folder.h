// Results as files of a folder.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/worker/result_store.h"

namespace upscaled::client {

class ResultFolder final : public ResultStore {
 public:
  // Makes `folder` and its errors/ if they are missing, for this user only. Removes unfinished
  // files of killed workers if they have not grown for a day.
  static absl::StatusOr<ResultFolder> Open(const std::filesystem::path& folder);

  absl::StatusOr<bool> Has(const std::string& name, std::stop_token stop) const override;
  absl::StatusOr<UniqueFd> Open(const std::string& name, std::stop_token stop) const override;
  absl::StatusOr<std::unique_ptr<ResultDraft>> Create() const override;
  absl::Status WriteError(const std::string& job, const std::string& json,
                          std::stop_token stop) const override;
  absl::Status WriteWarnings(const std::string& name, const std::string& json,
                             std::stop_token stop) const override;
  absl::StatusOr<std::string> ReadWarnings(const std::string& name,
                                           std::stop_token stop) const override;

 private:
  explicit ResultFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

}  // namespace upscaled::client
