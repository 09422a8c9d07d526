// Results in S3.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "client/worker/result_store.h"

namespace upscaled::client {

// s3://BUCKET/PREFIX/NAME, each computed into a file without a name and put whole.
class S3Results final : public ResultStore {
 public:
  S3Results(std::string prefix, S3Access access)
      : prefix_(std::move(prefix)), access_(std::move(access)) {}

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
  class Draft;

  // The object `name` of the prefix, one line.
  absl::Status PutText(const std::string& name, const std::string& text,
                       std::stop_token stop) const;

  std::string UrlOf(const std::string& name) const { return prefix_ + "/" + name; }

  const std::string prefix_;
  const S3Access access_;
};

}  // namespace upscaled::client
