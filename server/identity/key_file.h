// The file of --auth-keys. It names principals by hashes of keys, by names of certificates and by
// an issuer of tokens.
//
//   {"keys": [{"name": "shop-backend", "sha256": "<64 hexadecimal digits>", "tenant": "shop",
//              "roles": ["upscale"], "not_before": "2026-12-01T00:00:00Z",
//              "expires": "2027-12-01T00:00:00Z"}],
//    "tenants": {"shop": {"calls": 20}},
//    "tokens": {"issuer": "https://login.example.org", "audience": "upscaled",
//               "key_set": "jwks.json", "tenant_claim": "tenant", "roles_claim": "roles"},
//    "certificates": [{"name": "shop-worker", "san": "URI:spiffe://example.org/shop",
//                      "tenant": "shop", "roles": ["upscale"]}]}
//
// The two times and the two claims may be left out, and so may any part if at least one principal
// remains. Without "key_set" the issuer's URL tells its keys; "ca" may name a file of certificates
// to trust for it. No name, no hash and no "san" may be there twice. tenant_file.h has "tenants".
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/identity/api_key.h"
#include "server/identity/principal.h"
#include "server/identity/tenant_file.h"

namespace upscaled::server {

inline constexpr size_t kMaxKeyFileBytes = size_t{4} << 20;
inline constexpr size_t kMaxKeys = 10'000;  // and certificates

struct KeyEntry {
  Principal principal;
  absl::Time not_before = absl::InfinitePast();
  absl::Time expires = absl::InfiniteFuture();
};

// By the hash of a key. Callers are looked up by KeyIndex, in constant time.
using KeyTable = std::map<KeyHash, KeyEntry>;

// By the alternative name of a certificate (see SocketStream).
using CertificateTable = std::map<std::string, KeyEntry, std::less<>>;

// The issuer of tokens, and the claims to read from them.
struct TokenRules {
  std::string issuer;
  std::string audience;
  std::filesystem::path key_set;  // relative to the file's folder; empty: the issuer is asked
  std::filesystem::path ca;  // likewise; to trust when the issuer is asked; empty: the system's
  std::string tenant_claim;
  std::string roles_claim;
};

// The contents of the file.
struct KeyFile {
  KeyTable keys;
  CertificateTable certificates;
  TenantTable tenants;  // those that have limits
  std::optional<TokenRules> tokens;
};

// INVALID_ARGUMENT names the file, the entry and its fault.
absl::StatusOr<KeyFile> ParseKeyFile(std::string_view text, const std::string& file);

// An entry as the file has it, but without times.
std::string FormatKeyEntry(const Principal& principal, const KeyHash& hash);

}  // namespace upscaled::server
