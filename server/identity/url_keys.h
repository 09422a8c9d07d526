// The keys for signed URLs: the file of --url-keys, and the check of a signed URL.
//
//   {"keys": [{"id": "2026-11", "secret": "<32 characters or more>", "tenant": "shop",
//              "not_before": "2026-11-01T00:00:00Z", "expires": "2027-02-01T00:00:00Z"}]}
//
// The two times may be left out. To change keys, add the new one, sign with it, and remove the old
// one when its URLs are no longer in use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/reloaded.h"
#include "server/identity/principal.h"

namespace upscaled::server {

struct UrlKey {
  std::string secret;
  // Named by the key's id; may upscale.
  std::shared_ptr<const Principal> principal;
  absl::Time not_before = absl::InfinitePast();
  absl::Time expires = absl::InfiniteFuture();
};

using UrlKeyTable = std::map<std::string, UrlKey, std::less<>>;  // by id

// INVALID_ARGUMENT names the file, the entry and its fault, but never a secret.
absl::StatusOr<UrlKeyTable> ParseUrlKeys(std::string_view text, const std::string& file);

// A signed URL with a right signature.
struct SignedUrl {
  std::string_view options;  // the query without key, expires and sig
  std::shared_ptr<const Principal> signer;
  absl::Time expires;  // the earlier one of the URL's and its key's
};

// Whether a field of `query` is a signature.
bool HasUrlSignature(std::string_view query);

// `path` and `query` as sent; the result borrows them. PERMISSION_DENIED (kPermissionDenied), with
// "signature" in the metadata:
//   malformed    the query does not end with key, perhaps expires, and sig
//   unknown_key  no key has this id
//   wrong        the path or the query is not the one that was signed
//   expired, early  the time of the URL or of its key is over, or has not come
absl::StatusOr<SignedUrl> CheckSignedUrl(const UrlKeyTable& keys, std::string_view path,
                                         std::string_view query, absl::Time now);

// The refusal of a call without its needed signature ("missing").
absl::Status LacksUrlSignature();

// The file of --url-keys, read again when it changes. Thread safe.
class UrlKeys {
 public:
  // As ParseUrlKeys; NOT_FOUND when the file cannot be read.
  static absl::StatusOr<std::unique_ptr<UrlKeys>> Load(const std::filesystem::path& file);

  std::shared_ptr<const UrlKeyTable> get() const { return keys_.get(); }
  // As Authenticator's.
  absl::StatusOr<bool> ReloadIfChanged() { return keys_.ReloadIfChanged(); }
  absl::Status Reload() { return keys_.Reload(); }

 private:
  explicit UrlKeys(const std::filesystem::path& file);

  Reloaded<UrlKeyTable> keys_;
};

// A new key: the line "ID:SECRET" for signers, and the entry of the file. INVALID_ARGUMENT for a
// bad name; UNAVAILABLE: the system has no random numbers.
struct NewUrlKey {
  std::string line, entry;
};
absl::StatusOr<NewUrlKey> MakeUrlKey(const std::string& id, const std::string& tenant);

}  // namespace upscaled::server
