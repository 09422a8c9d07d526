#include "server/identity/authenticator.h"

#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

// Of one address: a person who mistypes sees what is wrong, a program that guesses is slowed.
constexpr Rate kWrongKeys = {.per_second = 0.2, .burst = 10};
constexpr absl::Duration kRetryDelay = absl::Seconds(5);  // until the bucket has the next token
constexpr size_t kBuckets = 4096;

absl::Status Unauthenticated(std::string_view message) {
  return MakeError(absl::StatusCode::kUnauthenticated, ErrorReason::kUnauthenticated, message);
}

}  // namespace

std::string_view DenialName(Denial denial) {
  constexpr std::string_view kNames[] = {"no_key",    "unknown_key", "expired_key",
                                         "early_key", "wrong_keys",  "role"};
  static_assert(std::size(kNames) == kDenials);
  return kNames[static_cast<size_t>(denial)];
}

absl::StatusOr<std::unique_ptr<Authenticator>> Authenticator::Load(
    const std::filesystem::path& file, const Clock& clock,
    std::function<void(const DeniedCaller&)> on_denied) {
  std::unique_ptr<Authenticator> authenticator(
      new Authenticator(file, clock, std::move(on_denied)));
  RETURN_IF_ERROR(authenticator->Read(/*pipes=*/true));
  return authenticator;
}

Authenticator::Authenticator(std::filesystem::path file, const Clock& clock,
                             std::function<void(const DeniedCaller&)> on_denied)
    : file_(std::move(file)),
      clock_(clock),
      on_denied_(std::move(on_denied)),
      wrong_keys_(kBuckets, TokenBucket(kWrongKeys, clock.Now())) {}

absl::StatusOr<std::shared_ptr<const Principal>> Authenticator::Authorize(
    const Credentials& credentials, std::string_view address, Role role) const {
  const std::string_view key = KeyOf(credentials);
  if (key.empty()) return Deny(Denial::kNoKey, address, "");
  const std::optional<KeyHash> hash = HashApiKey(key);
  const std::shared_ptr<const KeyFile> known = this->known();
  const auto found = hash ? known->keys.find(*hash) : known->keys.end();
  if (found == known->keys.end()) return Deny(Denial::kUnknownKey, address, "");
  const KeyEntry& entry = found->second;
  const absl::Time now = absl::Now();  // of the calendar, as the file's times are
  if (now >= entry.expires) return Deny(Denial::kExpiredKey, address, entry.principal.name);
  if (now < entry.not_before) return Deny(Denial::kEarlyKey, address, entry.principal.name);
  if (!entry.principal.roles.Has(role)) {
    on_denied_({Denial::kRole, address, entry.principal.name});
    const std::string name(RoleName(role));
    return MakeError(
        absl::StatusCode::kPermissionDenied, ErrorReason::kPermissionDenied,
        absl::StrCat("the key \"", entry.principal.name, "\" lacks the role \"", name, "\""),
        {{"role", name}});
  }
  return std::shared_ptr<const Principal>(known, &entry.principal);
}

absl::Status Authenticator::Deny(Denial denial, std::string_view address,
                                 std::string_view key) const {
  if (denial != Denial::kNoKey && TooMany(address)) {
    on_denied_({Denial::kWrongKeys, address, key});
    return MakeOverloaded("too many wrong API keys from this address", kRetryDelay);
  }
  on_denied_({denial, address, key});
  return Unauthenticated(
      denial == Denial::kNoKey
          ? "an API key is needed: \"authorization: Bearer KEY\" or \"x-api-key: "
            "KEY\""
          : "the API key is not valid");
}

bool Authenticator::TooMany(std::string_view address) const {
  absl::MutexLock lock(&mutex_);
  TokenBucket& bucket = wrong_keys_[std::hash<std::string_view>()(address) % kBuckets];
  return !bucket.Take(clock_.Now());
}

std::shared_ptr<const KeyFile> Authenticator::known() const {
  absl::MutexLock lock(&mutex_);
  return known_;
}

size_t Authenticator::key_count() const { return known()->keys.size(); }

absl::StatusOr<bool> Authenticator::ReloadIfChanged() {
  {
    const std::string state = FileState(file_).value_or("missing");
    absl::MutexLock lock(&mutex_);
    if (state == file_state_) return false;
  }
  RETURN_IF_ERROR(Reload());
  return true;
}

absl::Status Authenticator::Reload() { return Read(/*pipes=*/false); }

absl::Status Authenticator::Read(bool pipes) {
  absl::MutexLock reading(&read_mutex_);
  // First: what is written meanwhile is read next time.
  std::string state = FileState(file_).value_or("missing");
  const absl::StatusOr<std::string> text = ReadFile(file_, kMaxKeyFileBytes, {.pipes = pipes});
  absl::StatusOr<KeyFile> known = text.ok() ? ParseKeyFile(*text, file_.string()) : text.status();
  absl::MutexLock lock(&mutex_);
  file_state_ = std::move(state);
  if (known.ok()) known_ = std::make_shared<const KeyFile>(*std::move(known));
  return known.status();
}

}  // namespace upscaled::server
