#include "server/identity/key_set.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/identity/strict_json.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxKeyIdBytes = 256;
constexpr int kMinRsaBits = 2048, kMaxRsaBits = 8192;
constexpr size_t kCoordinateBytes = 32;  // of P-256, and of what its signatures have twice
constexpr char kUncompressedPoint = 4;

struct Free {
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(OSSL_PARAM* parameters) const { OSSL_PARAM_free(parameters); }
  void operator()(OSSL_PARAM_BLD* builder) const { OSSL_PARAM_BLD_free(builder); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;
using PublicKey = std::shared_ptr<EVP_PKEY>;

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Owned<BIGNUM> Number(std::string_view bytes) {
  return Owned<BIGNUM>(BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr));
}

absl::StatusOr<std::string> BytesOf(const json& jwk, const char* field) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(jwk, field));
  std::optional<std::string> bytes = DecodeBase64Url(text);
  if (!bytes || bytes->empty()) return Wrong(absl::StrCat("\"", field, "\" is no base64url"));
  return *std::move(bytes);
}

// A checked key of `type`; null where the numbers make none.
PublicKey KeyFrom(const char* type, OSSL_PARAM_BLD* builder) {
  const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder));
  const Owned<EVP_PKEY_CTX> maker(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* made = nullptr;
  if (parameters == nullptr || maker == nullptr || EVP_PKEY_fromdata_init(maker.get()) != 1 ||
      EVP_PKEY_fromdata(maker.get(), &made, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return nullptr;
  }
  PublicKey key(made, EVP_PKEY_free);
  const Owned<EVP_PKEY_CTX> checker(EVP_PKEY_CTX_new_from_pkey(nullptr, made, nullptr));
  return checker != nullptr && EVP_PKEY_public_check(checker.get()) == 1 ? key : nullptr;
}

absl::StatusOr<PublicKey> RsaKey(const json& jwk) {
  ASSIGN_OR_RETURN(const std::string modulus, BytesOf(jwk, "n"));
  ASSIGN_OR_RETURN(const std::string exponent, BytesOf(jwk, "e"));
  const Owned<BIGNUM> n = Number(modulus), e = Number(exponent);
  // Before anything is computed with them.
  if (const int bits = BN_num_bits(n.get()); bits < kMinRsaBits || bits > kMaxRsaBits) {
    return Wrong(absl::StrCat("has ", bits, " bits; an RSA key must have ", kMinRsaBits, " to ",
                              kMaxRsaBits));
  }
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, n.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, e.get());
  return KeyFrom("RSA", builder.get());
}

absl::StatusOr<PublicKey> P256Key(const json& jwk) {
  ASSIGN_OR_RETURN(const std::string x, BytesOf(jwk, "x"));
  ASSIGN_OR_RETURN(const std::string y, BytesOf(jwk, "y"));
  if (x.size() != kCoordinateBytes || y.size() != kCoordinateBytes) return PublicKey();
  const std::string point = kUncompressedPoint + x + y;
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  return KeyFrom("EC", builder.get());
}

absl::StatusOr<PublicKey> Ed25519Key(const json& jwk) {
  ASSIGN_OR_RETURN(const std::string x, BytesOf(jwk, "x"));
  return PublicKey(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(x), x.size()),
                   EVP_PKEY_free);
}

bool Is(const json& jwk, const char* field, std::string_view value) {
  const auto found = jwk.find(field);
  return found != jwk.end() && *found == value;
}

// A key's one algorithm; nullopt: none of ours.
std::optional<TokenAlgorithm> AlgorithmOf(const json& jwk) {
  struct Kind {
    const char* type;
    const char* curve;  // null: it has none
    const char* name;
  };
  constexpr Kind kKinds[] = {
      {"RSA", nullptr, "RS256"}, {"EC", "P-256", "ES256"}, {"OKP", "Ed25519", "EdDSA"}};
  if (jwk.contains("use") && !Is(jwk, "use", "sig")) return std::nullopt;
  for (const Kind& kind : kKinds) {
    if (!Is(jwk, "kty", kind.type)) continue;
    if (kind.curve != nullptr && !Is(jwk, "crv", kind.curve)) continue;
    if (jwk.contains("alg") && !Is(jwk, "alg", kind.name)) continue;
    return ParseTokenAlgorithm(kind.name);
  }
  return std::nullopt;
}

// Null: it is no valid one.
absl::StatusOr<PublicKey> PublicKeyOf(const json& jwk, TokenAlgorithm algorithm) {
  switch (algorithm) {
    case TokenAlgorithm::kRs256:
      return RsaKey(jwk);
    case TokenAlgorithm::kEs256:
      return P256Key(jwk);
    case TokenAlgorithm::kEdDsa:
      return Ed25519Key(jwk);
  }
  return PublicKey();
}

// "" if it has none.
absl::StatusOr<std::string> KeyIdOf(const json& jwk) {
  if (!jwk.contains("kid")) return std::string();
  ASSIGN_OR_RETURN(std::string id, TextOf(jwk, "kid"));
  if (id.empty() || id.size() > kMaxKeyIdBytes) {
    return Wrong(
        absl::StrCat("\"kid\" has ", id.size(), " bytes; it must have 1 to ", kMaxKeyIdBytes));
  }
  return id;
}

// ES256 has the two numbers side by side, OpenSSL takes them as DER; "" where they make none.
std::string ToDer(std::string_view signature) {
  if (signature.size() != 2 * kCoordinateBytes) return "";
  const Owned<ECDSA_SIG> numbers(ECDSA_SIG_new());
  Owned<BIGNUM> r = Number(signature.substr(0, kCoordinateBytes));
  Owned<BIGNUM> s = Number(signature.substr(kCoordinateBytes));
  if (ECDSA_SIG_set0(numbers.get(), r.get(), s.get()) != 1) return "";
  r.release();
  s.release();
  unsigned char* der = nullptr;
  const int bytes = i2d_ECDSA_SIG(numbers.get(), &der);
  if (bytes <= 0) return "";
  std::string text(reinterpret_cast<const char*>(der), static_cast<size_t>(bytes));
  OPENSSL_free(der);
  return text;
}

}  // namespace

std::optional<TokenAlgorithm> ParseTokenAlgorithm(std::string_view name) {
  if (name == "RS256") return TokenAlgorithm::kRs256;
  if (name == "ES256") return TokenAlgorithm::kEs256;
  if (name == "EdDSA") return TokenAlgorithm::kEdDsa;
  return std::nullopt;
}

std::optional<std::string> DecodeBase64Url(std::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(ToAbsl(text), &bytes)) return std::nullopt;
  if (absl::WebSafeBase64Escape(bytes) != text) return std::nullopt;
  return bytes;
}

absl::StatusOr<KeySet> KeySet::Parse(std::string_view text) {
  ASSIGN_OR_RETURN(const json root, ParseStrictJson(text));
  if (!root.is_object() || !root.contains("keys") || !root["keys"].is_array()) {
    return Wrong("must be an object with a list \"keys\"");
  }
  const json& entries = root["keys"];
  if (entries.size() > kMaxKeysOfSet) {
    return Wrong(absl::StrCat("has ", entries.size(), " keys; at most ", kMaxKeysOfSet));
  }
  KeySet set;
  for (size_t i = 0; i < entries.size(); ++i) {
    const absl::Status added = set.Add(entries[i]);
    if (!added.ok()) return Wrong(absl::StrCat("keys[", i, "]: ", added.message()));
  }
  if (set.keys_.empty()) return Wrong("has no key for signatures of RS256, ES256 or EdDSA");
  return set;
}

absl::Status KeySet::Add(const json& jwk) {
  if (!jwk.is_object()) return Wrong("must be an object");
  if (jwk.contains("d") || jwk.contains("k")) return Wrong("is secret, and not for this file");
  const std::optional<TokenAlgorithm> algorithm = AlgorithmOf(jwk);
  if (!algorithm) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::string id, KeyIdOf(jwk));
  ASSIGN_OR_RETURN(PublicKey key, PublicKeyOf(jwk, *algorithm));
  ERR_clear_error();
  if (key == nullptr) return Wrong("is no valid public key");
  for (const Key& other : keys_) {
    if (other.id == id && other.algorithm == *algorithm) {
      return Wrong("another key has this \"kid\" and is for the same algorithm");
    }
  }
  keys_.push_back({std::move(id), *algorithm, std::move(key)});
  return absl::OkStatus();
}

const KeySet::Key* KeySet::Find(TokenAlgorithm algorithm, std::string_view key_id) const {
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (key.algorithm != algorithm || (!key_id.empty() && key.id != key_id)) continue;
    if (found != nullptr) return nullptr;  // which of them is not said
    found = &key;
  }
  return found;
}

absl::Status KeySet::Verify(TokenAlgorithm algorithm, std::string_view key_id,
                            std::string_view message, std::string_view signature) const {
  const Key* const key = Find(algorithm, key_id);
  if (key == nullptr) return absl::UnauthenticatedError("of a key that is not in the key set");
  const bool is_es256 = algorithm == TokenAlgorithm::kEs256;
  const std::string der = is_es256 ? ToDer(signature) : "";
  const std::string_view shown = is_es256 ? std::string_view(der) : signature;
  const EVP_MD* const hash = algorithm == TokenAlgorithm::kEdDsa ? nullptr : EVP_sha256();
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const bool verified =
      context != nullptr && !shown.empty() &&
      EVP_DigestVerifyInit(context.get(), nullptr, hash, nullptr, key->key.get()) == 1 &&
      EVP_DigestVerify(context.get(), Bytes(shown), shown.size(), Bytes(message), message.size()) ==
          1;
  ERR_clear_error();
  if (!verified) return absl::UnauthenticatedError("the signature is wrong");
  return absl::OkStatus();
}

}  // namespace upscaled::server
