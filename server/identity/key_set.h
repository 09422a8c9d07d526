// The public keys of an issuer of tokens: a JSON Web Key Set (RFC 7517, 7518 and 8037).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace upscaled::server {

inline constexpr size_t kMaxKeySetBytes = size_t{1} << 20;
inline constexpr size_t kMaxKeysOfSet = 100;

// Algorithms of signatures; there are no others, above all none forgeable by a public key.
enum class TokenAlgorithm : uint8_t {
  kRs256,  // RSASSA-PKCS1-v1_5 with SHA-256, 2048 to 8192 bits
  kEs256,  // ECDSA over P-256 with SHA-256
  kEdDsa,  // Ed25519
};
std::optional<TokenAlgorithm> ParseTokenAlgorithm(std::string_view name);  // "RS256", ...

// The bytes of `text` in base64url (RFC 4648, section 5): nullopt unless it is the one way to write
// that, without padding.
std::optional<std::string> DecodeBase64Url(std::string_view text);

// Immutable.
class KeySet {
 public:
  // Passes over keys for other uses than signatures of these algorithms, as RFC 7517 wants it.
  // INVALID_ARGUMENT names the key and its fault, or says no key is left; a private key is wrong,
  // too, as it is not for this file.
  static absl::StatusOr<KeySet> Parse(std::string_view text);

  // Whether `signature` of `message` is of the key of this id and algorithm; of the algorithm's
  // only one if the id is empty. Looks at one key at most. UNAUTHENTICATED: no key fits, or the
  // signature is wrong.
  absl::Status Verify(TokenAlgorithm algorithm, std::string_view key_id, std::string_view message,
                      std::string_view signature) const;

  size_t size() const { return keys_.size(); }

 private:
  struct Key {
    std::string id;  // "": it has none
    TokenAlgorithm algorithm;
    std::shared_ptr<evp_pkey_st> key;
  };
  absl::Status Add(const nlohmann::json& jwk);
  const Key* Find(TokenAlgorithm algorithm, std::string_view key_id) const;

  std::vector<Key> keys_;
};

}  // namespace upscaled::server
