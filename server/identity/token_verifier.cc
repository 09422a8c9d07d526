#include "server/identity/token_verifier.h"

#include "engine/base/status_macros.h"
#include "server/identity/json_web_token.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxKnownTokens = 4096;  // of a generation; each takes some hundred bytes

}  // namespace

std::shared_ptr<const KeyEntry> TokenVerifier::Find(std::string_view token) const {
  const KeyHash hash = HashOf(token);
  absl::MutexLock lock(&mutex_);
  for (const Known* known : {&latest_, &earlier_}) {
    if (const auto found = known->find(hash); found != known->end()) return found->second;
  }
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const KeyEntry>> TokenVerifier::Verify(
    std::string_view token) const {
  ASSIGN_OR_RETURN(const JsonWebToken parsed, ParseToken(token));
  RETURN_IF_ERROR(
      keys_.Verify(parsed.algorithm, parsed.key_id, parsed.signed_part, parsed.signature));
  ASSIGN_OR_RETURN(KeyEntry entry, ReadClaims(parsed.claims, rules_));
  entry.principal.limits = LimitsOf(tenants_, entry.principal.tenant);
  auto verified = std::make_shared<const KeyEntry>(std::move(entry));
  const KeyHash hash = HashOf(token);
  absl::MutexLock lock(&mutex_);
  if (latest_.size() >= kMaxKnownTokens) earlier_ = std::exchange(latest_, {});
  latest_.emplace(hash, verified);
  return verified;
}

}  // namespace upscaled::server
