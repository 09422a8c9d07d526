// Decides whether a caller may call: the one place for both transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "server/base/reloaded.h"
#include "server/identity/address_buckets.h"
#include "server/identity/api_key.h"
#include "server/identity/issuer_keys.h"
#include "server/identity/key_file.h"
#include "server/identity/key_index.h"
#include "server/identity/principal.h"
#include "server/identity/token_verifier.h"

namespace upscaled::server {

// Why a caller was refused: for the log and the metrics. Callers do not learn the kind of their
// wrong key. Early and expired tokens count as keys, others as wrong tokens.
enum class Denial : uint8_t {
  kNoKey,
  kUnknownKey,
  kExpiredKey,
  kEarlyKey,
  kWrongToken,
  kUnknownCertificate,
  kWrongKeys,
  kRole,
  kSeveralKeys
};
inline constexpr int kDenials = 9;
std::string_view DenialName(Denial denial);  // "no_key", "unknown_key", ...

struct DeniedCaller {
  Denial denial;
  std::string_view address;              // the client's, without a port
  const Principal* principal = nullptr;  // null: not known
  std::string_view why = "";             // what is wrong with the token; "": the denial says all
};

// The answer to a caller: allowed or not, and as which principal.
struct Authorization {
  absl::Status status;
  // Null: the caller is unknown. A caller without the role is known.
  std::shared_ptr<const Principal> caller;
};

// Thread safe.
class Authenticator {
 public:
  // As ParseKeyFile and KeySet::Parse; NOT_FOUND when a file cannot be read. `clock` and `timer`
  // (for fetches of an issuer's keys) must outlive it. `on_denied` is called for each rejection.
  // Waits up to 10 s for the keys of an issuer; without them it knows no token yet.
  static absl::StatusOr<std::unique_ptr<Authenticator>> Load(
      const std::filesystem::path& file, const Clock& clock, Timer& timer,
      std::function<void(const DeniedCaller&)> on_denied,
      absl::Duration issuer_min_interval = IssuerKeys::kMinInterval);

  // Identifies the caller by key or token, or by certificate if neither was sent. Then checks for
  // `role`.
  //   UNAUTHENTICATED (kUnauthenticated)     no key, or a wrong one
  //   RESOURCE_EXHAUSTED (kOverloaded)       a wrong key after many from `address` (a right key
  //                                          still passes), or an unknown token after very many
  //                                          wrong ones
  //   PERMISSION_DENIED (kPermissionDenied)  the caller lacks `role`; the error names it
  Authorization Authorize(const Credentials& credentials, std::string_view address,
                          Role role) const;

  // Reads the files again when one has changed, or the issuer's keys have. true: the new contents
  // are in force; false: nothing had changed. An error leaves all as it was, and is told once.
  // Running calls keep their principal.
  absl::StatusOr<bool> ReloadIfChanged();
  // The same, whether they have changed or not.
  absl::Status Reload() { return known_.Reload(); }

  // Null: the tenant has no limits.
  std::shared_ptr<const TenantLimits> LimitsOfTenant(const std::string& tenant) const {
    return LimitsOf(known_.get()->file.tenants, tenant);
  }

  size_t key_count() const { return known_.get()->file.keys.size(); }

 private:
  struct Known {
    KeyFile file;
    std::unique_ptr<const KeyIndex> keys;         // of the file
    std::unique_ptr<const TokenVerifier> tokens;  // null: none are taken
    std::shared_ptr<const KeySet> issuer_set;     // of tokens; null: from a file, or not known yet
  };
  struct Identified {
    // Null: no principal matches, with the reason.
    std::shared_ptr<const KeyEntry> entry;
    Denial denial = Denial::kNoKey;
    std::string why = {};
    // Validity of `entry`. If `is_its` is false, the entry is not the caller's and the rest means
    // nothing.
    bool is_its = true, expired = false, early = false;
  };

  Authenticator(const std::filesystem::path& file, const Clock& clock, Timer& timer,
                std::function<void(const DeniedCaller&)> on_denied,
                absl::Duration issuer_min_interval);

  absl::StatusOr<std::shared_ptr<const Known>> Read(const std::filesystem::path& file,
                                                    FileReader& reader)
      ABSL_LOCKS_EXCLUDED(issuer_mutex_);
  static absl::StatusOr<std::shared_ptr<const Known>> WithIssuerSet(
      const Known& old, std::shared_ptr<const KeySet> issuer_set);
  // The issuer of the keys for `rules`; begins with another one, or ends.
  std::shared_ptr<IssuerKeys> FollowIssuer(const std::optional<TokenRules>& rules,
                                           const std::filesystem::path& folder)
      ABSL_LOCKS_EXCLUDED(issuer_mutex_);
  std::shared_ptr<IssuerKeys> issuer_keys() const ABSL_LOCKS_EXCLUDED(issuer_mutex_);
  Identified Identify(const Credentials& credentials, std::string_view address,
                      absl::Time now) const;
  static Identified IdentifyCertificate(const std::shared_ptr<const Known>& known,
                                        const std::vector<std::string>* names, absl::Time now);
  Identified IdentifyToken(const TokenVerifier& tokens, std::string_view token,
                           std::string_view address, absl::Time now) const;
  static Identified Of(std::shared_ptr<const KeyEntry> entry, absl::Time now);
  // Rejects a caller without valid credentials.
  Authorization Deny(const DeniedCaller& caller) const;

  const std::function<void(const DeniedCaller&)> on_denied_;
  Timer& timer_;
  const absl::Duration issuer_min_interval_;
  mutable absl::Mutex issuer_mutex_;
  std::shared_ptr<IssuerKeys> issuer_keys_ ABSL_GUARDED_BY(issuer_mutex_);  // null: none to fetch
  Reloaded<Known> known_;
  mutable AddressBuckets wrong_keys_;
  mutable AddressBuckets wrong_tokens_;  // whose signatures are looked at
};

}  // namespace upscaled::server
