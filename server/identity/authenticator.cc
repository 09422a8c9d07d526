#include "server/identity/authenticator.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// Rate of one address: a person sees the typing error, a guessing program is slowed.
constexpr Rate kWrongKeys = {.per_second = 0.2, .burst = 10};
// Checking a signature takes about 50 us, for any caller. Many more than wrong keys, since right
// tokens are stopped, too, until they are known.
constexpr Rate kWrongTokens = {.per_second = 10, .burst = 50};
constexpr absl::Duration kIssuerPatience = absl::Seconds(10);

absl::Status Unauthenticated(std::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, ErrorReason::kUnauthenticated, message);
}

absl::Status LacksRole(const Principal& principal, Role role) {
  const std::string name(RoleName(role));
  return MakeError(absl::StatusCode::kPermissionDenied, ErrorReason::kPermissionDenied,
                   absl::StrCat("\"", principal.name, "\" lacks the role \"", name, "\""),
                   {{"role", name}});
}

}  // namespace

std::string_view DenialName(Denial denial) {
  constexpr std::string_view kNames[] = {"no_key",     "unknown_key", "expired_key",
                                         "early_key",  "wrong_token", "unknown_certificate",
                                         "wrong_keys", "role",        "several_keys"};
  static_assert(std::size(kNames) == kDenials);
  return kNames[static_cast<size_t>(denial)];
}

absl::StatusOr<std::unique_ptr<Authenticator>> Authenticator::Load(
    const std::filesystem::path& file, const Clock& clock, Timer& timer,
    std::function<void(const DeniedCaller&)> on_denied, absl::Duration issuer_min_interval) {
  std::unique_ptr<Authenticator> authenticator(
      new Authenticator(file, clock, timer, std::move(on_denied), issuer_min_interval));
  RETURN_IF_ERROR(authenticator->known_.Load());
  const std::shared_ptr<IssuerKeys> issuer_keys = authenticator->issuer_keys();
  if (issuer_keys == nullptr) return authenticator;
  issuer_keys->Await(kIssuerPatience);
  if (issuer_keys->get() != nullptr) RETURN_IF_ERROR(authenticator->known_.Reload());
  return authenticator;
}

Authenticator::Authenticator(const std::filesystem::path& file, const Clock& clock, Timer& timer,
                             std::function<void(const DeniedCaller&)> on_denied,
                             absl::Duration issuer_min_interval)
    : on_denied_(std::move(on_denied)),
      timer_(timer),
      issuer_min_interval_(issuer_min_interval),
      known_([this, file](FileReader& reader) { return Read(file, reader); }),
      wrong_keys_(kWrongKeys, clock),
      wrong_tokens_(kWrongTokens, clock) {}

absl::StatusOr<std::shared_ptr<const Authenticator::Known>> Authenticator::Read(
    const std::filesystem::path& file, FileReader& reader) {
  Known known;
  ASSIGN_OR_RETURN(const std::string text, reader.Read(file, kMaxKeyFileBytes));
  ASSIGN_OR_RETURN(known.file, ParseKeyFile(text, file.string()));
  ASSIGN_OR_RETURN(known.keys, KeyIndex::Make(known.file.keys));
  const std::optional<TokenRules>& rules = known.file.tokens;
  std::optional<KeySet> keys;
  if (rules.has_value() && !rules->key_set.empty()) {
    const std::filesystem::path key_set = file.parent_path() / rules->key_set;
    ASSIGN_OR_RETURN(const std::string set_text, reader.Read(key_set, kMaxKeySetBytes));
    absl::StatusOr<KeySet> parsed = KeySet::Parse(set_text);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(key_set.string(), ": ", parsed.status().message()));
    }
    keys = *std::move(parsed);
  }
  // Last: after an error the old issuer goes on.
  if (const auto issuer_keys = FollowIssuer(rules, file.parent_path())) {
    known.issuer_set = issuer_keys->get();
    keys = known.issuer_set == nullptr ? KeySet() : *known.issuer_set;
  }
  if (keys.has_value()) {
    known.tokens =
        std::make_unique<const TokenVerifier>(*rules, *std::move(keys), known.file.tenants);
  }
  return std::make_shared<const Known>(std::move(known));
}

absl::StatusOr<std::shared_ptr<const Authenticator::Known>> Authenticator::WithIssuerSet(
    const Known& old, std::shared_ptr<const KeySet> issuer_set) {
  Known known{.file = old.file, .issuer_set = std::move(issuer_set)};
  ASSIGN_OR_RETURN(known.keys, KeyIndex::Make(known.file.keys));
  known.tokens = std::make_unique<const TokenVerifier>(*known.file.tokens, *known.issuer_set,
                                                       known.file.tenants);
  return std::make_shared<const Known>(std::move(known));
}

std::shared_ptr<IssuerKeys> Authenticator::FollowIssuer(const std::optional<TokenRules>& rules,
                                                        const std::filesystem::path& folder) {
  std::shared_ptr<IssuerKeys> left;  // after the lock: its end may wait for a fetch
  const bool fetches = rules.has_value() && rules->key_set.empty();
  const Issuer issuer =
      fetches ? Issuer{.url = rules->issuer, .ca = rules->ca.empty() ? "" : folder / rules->ca}
              : Issuer();
  absl::MutexLock lock(&issuer_mutex_);
  const bool same = issuer_keys_ != nullptr && issuer_keys_->issuer() == issuer;
  if (same) return issuer_keys_;
  left = std::exchange(
      issuer_keys_,
      fetches ? std::make_shared<IssuerKeys>(timer_, issuer, issuer_min_interval_) : nullptr);
  return issuer_keys_;
}

std::shared_ptr<IssuerKeys> Authenticator::issuer_keys() const {
  absl::MutexLock lock(&issuer_mutex_);
  return issuer_keys_;
}

absl::StatusOr<bool> Authenticator::ReloadIfChanged() {
  ASSIGN_OR_RETURN(const bool reloaded, known_.ReloadIfChanged());
  const std::shared_ptr<IssuerKeys> issuer_keys = this->issuer_keys();
  if (issuer_keys == nullptr) return reloaded;
  std::shared_ptr<const KeySet> issuer_set = issuer_keys->get();
  if (issuer_set != known_.get()->issuer_set) {
    // Without the files: the issuer's keys come into force, and go, though a file is broken.
    RETURN_IF_ERROR(known_.Replace(
        [&](const Known& known) { return WithIssuerSet(known, std::move(issuer_set)); }));
    return true;
  }
  RETURN_IF_ERROR(issuer_keys->TakeFailure());
  return reloaded;
}

Authorization Authenticator::Authorize(const Credentials& credentials, std::string_view address,
                                       Role role) const {
  // The calendar's time, as the entries' times are; before it is known whether there is one.
  const absl::Time now = absl::Now();
  const Identified caller = Identify(credentials, address, now);
  if (caller.entry == nullptr) return Deny({caller.denial, address, nullptr, caller.why});
  const Principal& principal = caller.entry->principal;
  // Whether a key is unknown, expired or early is found without a branch, so time tells neither;
  // one number, since of a condition of three the compiler makes a branch for each.
  constexpr int kValid = 4;
  if (4 * caller.is_its + 2 * caller.expired + caller.early != kValid) {
    constexpr Denial kDenials[] = {Denial::kUnknownKey, Denial::kUnknownKey, Denial::kEarlyKey,
                                   Denial::kExpiredKey};
    const Principal* const principals[] = {nullptr, &principal};
    return Deny({kDenials[2 * caller.is_its + caller.expired], address, principals[caller.is_its]});
  }
  Authorization known{.caller = {caller.entry, &principal}};
  if (!principal.roles.Has(role)) {
    on_denied_({Denial::kRole, address, &principal});
    known.status = LacksRole(principal, role);
  }
  return known;
}

Authenticator::Identified Authenticator::Identify(const Credentials& credentials,
                                                  std::string_view address, absl::Time now) const {
  if (HasSeveralKeys(credentials)) return {.denial = Denial::kSeveralKeys};
  const std::string_view key = KeyOf(credentials);
  const std::shared_ptr<const Known> known = known_.get();
  if (key.empty()) return IdentifyCertificate(known, credentials.certificate_names, now);
  if (known->tokens != nullptr && !IsApiKey(key)) {
    return IdentifyToken(*known->tokens, key, address, now);
  }
  const std::optional<KeyHash> hash = HashApiKey(key);
  if (!hash) return {.denial = Denial::kUnknownKey};
  const KeyIndex::Place place = known->keys->Find(*hash, now);
  return {.entry = {known, place.entry},
          .denial = Denial::kUnknownKey,
          .is_its = place.is_its,
          .expired = place.expired,
          .early = place.early};
}

Authenticator::Identified Authenticator::IdentifyCertificate(
    const std::shared_ptr<const Known>& known, const std::vector<std::string>* names,
    absl::Time now) {
  if (names == nullptr) return {.denial = Denial::kNoKey};
  const CertificateTable& certificates = known->file.certificates;
  for (const std::string& name : *names) {
    const auto found = certificates.find(name);
    if (found != certificates.end()) return Of({known, &found->second}, now);
  }
  return {.denial = Denial::kUnknownCertificate, .why = names->front()};
}

Authenticator::Identified Authenticator::IdentifyToken(const TokenVerifier& tokens,
                                                       std::string_view token,
                                                       std::string_view address,
                                                       absl::Time now) const {
  if (std::shared_ptr<const KeyEntry> entry = tokens.Find(token)) return Of(std::move(entry), now);
  if (!wrong_tokens_.Take(address)) return {.denial = Denial::kWrongKeys};
  absl::StatusOr<std::shared_ptr<const KeyEntry>> entry = tokens.Verify(token);
  if (!entry.ok()) {
    // Its key may be a new one of the issuer's.
    const auto issuer_keys =
        absl::IsUnauthenticated(entry.status()) ? this->issuer_keys() : nullptr;
    if (issuer_keys != nullptr) issuer_keys->Request();
    return {nullptr, Denial::kWrongToken, std::string(entry.status().message())};
  }
  wrong_tokens_.Return(address);
  return Of(*std::move(entry), now);
}

Authenticator::Identified Authenticator::Of(std::shared_ptr<const KeyEntry> entry, absl::Time now) {
  const bool expired = now >= entry->expires, early = now < entry->not_before;
  return {.entry = std::move(entry), .expired = expired, .early = early};
}

Authorization Authenticator::Deny(const DeniedCaller& caller) const {
  if (caller.denial == Denial::kSeveralKeys) {
    on_denied_(caller);
    return {Unauthenticated("the call has several API keys or tokens; send one")};
  }
  const bool guessed =
      caller.denial != Denial::kNoKey && caller.denial != Denial::kUnknownCertificate;
  if (guessed && (caller.denial == Denial::kWrongKeys || !wrong_keys_.Take(caller.address))) {
    on_denied_({Denial::kWrongKeys, caller.address, caller.principal, caller.why});
    AddressBuckets& bucket = caller.denial == Denial::kWrongKeys ? wrong_tokens_ : wrong_keys_;
    const absl::Duration delay =
        std::max(absl::Ceil(bucket.TimeToNext(caller.address), absl::Milliseconds(1)),
                 absl::Milliseconds(1));
    return {MakeOverloaded("too many wrong API keys or tokens from this address", delay)};
  }
  on_denied_(caller);
  return {Unauthenticated(guessed ? "the API key or token is not valid"
                                  : "an API key is needed: \"authorization: Bearer KEY\" or "
                                    "\"x-api-key: KEY\"")};
}

}  // namespace upscaled::server
