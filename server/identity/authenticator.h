// Decides whether a caller may call: the one place that both transports ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/clock.h"
#include "server/identity/api_key.h"
#include "server/identity/key_file.h"
#include "server/identity/principal.h"
#include "server/net/token_bucket.h"

namespace upscaled::server {

// Why a caller was refused: for the log and the metrics. Callers are not told which of the three
// kinds of wrong keys theirs is.
enum class Denial : uint8_t { kNoKey, kUnknownKey, kExpiredKey, kEarlyKey, kWrongKeys, kRole };
inline constexpr int kDenials = 6;
std::string_view DenialName(Denial denial);  // "no_key", "unknown_key", ...

struct DeniedCaller {
  Denial denial;
  std::string_view address;  // the client's, without a port
  std::string_view key;      // its name in the file; "": not known
};

// Thread safe.
class Authenticator {
 public:
  // As ParseKeyFile; NOT_FOUND when it cannot be read. `clock` must outlive it, `on_denied`
  // hears of each refusal.
  static absl::StatusOr<std::unique_ptr<Authenticator>> Load(
      const std::filesystem::path& file, const Clock& clock,
      std::function<void(const DeniedCaller&)> on_denied);

  // Who calls, if they may call what asks for `role`. Otherwise
  //   UNAUTHENTICATED (kUnauthenticated)      no key, or a wrong one
  //   RESOURCE_EXHAUSTED (kOverloaded)        a wrong key after many from `address`; a right one
  //                                           passes whatever its neighbours sent
  //   PERMISSION_DENIED (kPermissionDenied)   the key has not that role, which the error names
  absl::StatusOr<std::shared_ptr<const Principal>> Authorize(const Credentials& credentials,
                                                             std::string_view address,
                                                             Role role) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Reads the file again when it has changed. true: what it holds is in force; false: it had not
  // changed. An error leaves all as it was, and the same file is not tried again.
  absl::StatusOr<bool> ReloadIfChanged() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, whether it has changed or not.
  absl::Status Reload() ABSL_LOCKS_EXCLUDED(mutex_);

  size_t key_count() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Authenticator(std::filesystem::path file, const Clock& clock,
                std::function<void(const DeniedCaller&)> on_denied);

  std::shared_ptr<const KeyFile> known() const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Deny(Denial denial, std::string_view address, std::string_view key) const;
  // Whether so many wrong keys have come from `address` of late that this one is one too many.
  bool TooMany(std::string_view address) const ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Read(bool pipes) ABSL_LOCKS_EXCLUDED(read_mutex_, mutex_);

  const std::filesystem::path file_;
  absl::Mutex read_mutex_;  // held while the file is read, so that the last one that was read holds
  const Clock& clock_;
  const std::function<void(const DeniedCaller&)> on_denied_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const KeyFile> known_ ABSL_GUARDED_BY(mutex_);
  std::string file_state_ ABSL_GUARDED_BY(mutex_);
  // By the hash of the address, so that no number of addresses takes more. Addresses that share one
  // slow each other's wrong keys alone.
  mutable std::vector<TokenBucket> wrong_keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
