// Certificate authorities trusted for hosts.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

struct x509_store_st;  // OpenSSL's X509_STORE

namespace upscaled::server {

// Certificates for all fetches: Debian's 144 take 0.8 MiB and 25 ms to read, and curl would read
// them for each connection. Thread safe.
class Authorities {
 public:
  using Store = std::shared_ptr<x509_store_st>;

  // Authorities of a PEM file. If `file` is empty, of libcurl's default file and folder.
  explicit Authorities(std::filesystem::path file);

  // Reads the file at the first call, and when it has changed; an unreadable one leaves the last
  // certificates. UNAVAILABLE: it never could, or libcurl does not use this OpenSSL.
  absl::StatusOr<Store> Get() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::StatusOr<Store> Load() const;

  std::filesystem::path file_, folder_;  // "": none
  absl::Mutex mutex_;
  bool loading_ ABSL_GUARDED_BY(mutex_) = false;  // by one thread at a time
  std::string file_state_ ABSL_GUARDED_BY(mutex_);
  absl::StatusOr<Store> store_ ABSL_GUARDED_BY(mutex_) =
      absl::UnavailableError("the certificates of authorities are still being read");
};

}  // namespace upscaled::server
