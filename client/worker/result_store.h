// Results by their content addresses, as the server names them.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/image_io.h"
#include "client/worker/s3.h"
#include "engine/base/unique_fd.h"

namespace upscaled::client {

// A result being written; without Commit it is dropped.
class ResultDraft : public ImageSink {
 public:
  // Makes the written bytes the result `name`; the same bytes, at the first one. Call once, after
  // the last byte. Errors as the store's.
  virtual absl::StatusOr<UniqueFd> Commit(const std::string& name, std::stop_token stop) = 0;
};

// Results appear whole, and are then never changed. Workers on several machines may share a store.
// Thread safe, and outlives its drafts. Errors are UNAVAILABLE where another try may do, CANCELLED
// when `stop` was requested, and others when this worker cannot use the store.
class ResultStore {
 public:
  virtual ~ResultStore() = default;

  virtual absl::StatusOr<bool> Has(const std::string& name, std::stop_token stop) const = 0;
  // At its first byte. NOT_FOUND: it was removed.
  virtual absl::StatusOr<UniqueFd> Open(const std::string& name, std::stop_token stop) const = 0;
  virtual absl::StatusOr<std::unique_ptr<ResultDraft>> Create() const = 0;
  // errors/`job`.json: why the job has no result and never will.
  virtual absl::Status WriteError(const std::string& job, const std::string& json,
                                  std::stop_token stop) const = 0;
  // warnings/`name`.json: a JSON array of what the result has dropped or changed. A worker writes
  // it before it commits the result, and none for a result without warnings.
  virtual absl::Status WriteWarnings(const std::string& name, const std::string& json,
                                     std::stop_token stop) const = 0;
  // "" for a result without warnings.
  virtual absl::StatusOr<std::string> ReadWarnings(const std::string& name,
                                                   std::stop_token stop) const = 0;
};

// `place` is a folder, or s3://BUCKET/PREFIX, with `access` to it.
absl::StatusOr<std::unique_ptr<ResultStore>> OpenResults(const std::string& place,
                                                         const S3Access& access);

}  // namespace upscaled::client
