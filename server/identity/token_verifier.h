// Finds the principal of a token.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/identity/api_key.h"
#include "server/identity/key_file.h"
#include "server/identity/key_set.h"
#include "server/identity/tenant_file.h"

namespace upscaled::server {

// Verifies tokens. Remembers verified ones by SHA-256, so a thousand calls of one client cost
// one signature check. When rules or keys change, a new verifier with an empty memory replaces
// it. Thread safe.
class TokenVerifier {
 public:
  TokenVerifier(TokenRules rules, KeySet keys, TenantTable tenants = {})
      : rules_(std::move(rules)), keys_(std::move(keys)), tenants_(std::move(tenants)) {}

  // Null: it has not been verified, or long ago. Costs a look-up.
  std::shared_ptr<const KeyEntry> Find(std::string_view token) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Costs at most one verification of a signature. Whether the token's time has come or is over is
  // the caller's to look at. Errors are for the log:
  //   INVALID_ARGUMENT as ParseToken and ReadClaims, UNAUTHENTICATED as KeySet::Verify
  absl::StatusOr<std::shared_ptr<const KeyEntry>> Verify(std::string_view token) const
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Known = std::map<KeyHash, std::shared_ptr<const KeyEntry>>;

  const TokenRules rules_;
  const KeySet keys_;
  const TenantTable tenants_;
  mutable absl::Mutex mutex_;
  // When the first is full it becomes the second, and the second's tokens are forgotten. So the
  // kept tokens are bounded, and the latest are among them.
  mutable Known latest_ ABSL_GUARDED_BY(mutex_), earlier_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
