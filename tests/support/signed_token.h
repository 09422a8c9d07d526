// Issuers of tokens for tests: keys, their JSON, and their signatures.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace upscaled::test {

inline std::string Base64Url(const std::string& bytes) { return absl::WebSafeBase64Escape(bytes); }

// A private key for tokens of `algorithm`: RS256 (possibly of other bits), ES256 or EdDSA.
class TokenSigner {
 public:
  explicit TokenSigner(const std::string& algorithm, std::string id = "", unsigned rsa_bits = 2048)
      : algorithm_(algorithm), id_(std::move(id)), key_(nullptr, EVP_PKEY_free) {
    if (algorithm == "RS256") key_.reset(EVP_RSA_gen(rsa_bits));
    if (algorithm == "ES256") key_.reset(EVP_EC_gen("P-256"));
    if (algorithm == "EdDSA") key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  }

  // The public key as an entry of a JSON Web Key Set.
  nlohmann::json Jwk() const {
    nlohmann::json jwk = {{"alg", algorithm_}, {"use", "sig"}};
    if (!id_.empty()) jwk["kid"] = id_;
    if (algorithm_ == "RS256") {
      jwk["kty"] = "RSA";
      jwk["n"] = Base64Url(Number(OSSL_PKEY_PARAM_RSA_N));
      jwk["e"] = Base64Url(Number(OSSL_PKEY_PARAM_RSA_E));
    } else if (algorithm_ == "ES256") {
      jwk["kty"] = "EC";
      jwk["crv"] = "P-256";
      jwk["x"] = Base64Url(Number(OSSL_PKEY_PARAM_EC_PUB_X, kCoordinateBytes));
      jwk["y"] = Base64Url(Number(OSSL_PKEY_PARAM_EC_PUB_Y, kCoordinateBytes));
    } else {
      std::string x(kCoordinateBytes, '\0');
      size_t bytes = x.size();
      EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(x.data()), &bytes);
      jwk["kty"] = "OKP";
      jwk["crv"] = "Ed25519";
      jwk["x"] = Base64Url(x);
    }
    return jwk;
  }

  nlohmann::json Header() const {
    nlohmann::json header = {{"alg", algorithm_}, {"typ", "JWT"}};
    if (!id_.empty()) header["kid"] = id_;
    return header;
  }
  std::string Sign(const nlohmann::json& claims) const { return Sign(Header(), claims.dump()); }
  // With any header.
  std::string Sign(const nlohmann::json& header, const std::string& claims) const {
    const std::string text = absl::StrCat(Base64Url(header.dump()), ".", Base64Url(claims));
    return absl::StrCat(text, ".", Base64Url(Signature(text)));
  }

 private:
  static constexpr size_t kCoordinateBytes = 32;

  // Big-endian, of `bytes` where they are given.
  std::string Number(const char* parameter, size_t bytes = 0) const {
    BIGNUM* number = nullptr;
    EVP_PKEY_get_bn_param(key_.get(), parameter, &number);
    std::string text = ToBytes(number, bytes);
    BN_free(number);
    return text;
  }
  static std::string ToBytes(const BIGNUM* number, size_t bytes) {
    std::string text(bytes > 0 ? bytes : static_cast<size_t>(BN_num_bytes(number)), '\0');
    BN_bn2binpad(number, reinterpret_cast<unsigned char*>(text.data()),
                 static_cast<int>(text.size()));
    return text;
  }

  std::string Signature(const std::string& text) const {
    const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                          EVP_MD_CTX_free);
    const auto* const message = reinterpret_cast<const unsigned char*>(text.data());
    EVP_DigestSignInit(context.get(), nullptr, algorithm_ == "EdDSA" ? nullptr : EVP_sha256(),
                       nullptr, key_.get());
    size_t bytes = 0;
    EVP_DigestSign(context.get(), nullptr, &bytes, message, text.size());
    std::string signature(bytes, '\0');
    EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &bytes,
                   message, text.size());
    signature.resize(bytes);
    return algorithm_ == "ES256" ? SideBySide(signature) : signature;
  }
  static std::string SideBySide(const std::string& der) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(der.data());
    ECDSA_SIG* const numbers = d2i_ECDSA_SIG(nullptr, &bytes, static_cast<long>(der.size()));
    std::string text = ToBytes(ECDSA_SIG_get0_r(numbers), kCoordinateBytes) +
                       ToBytes(ECDSA_SIG_get0_s(numbers), kCoordinateBytes);
    ECDSA_SIG_free(numbers);
    return text;
  }

  std::string algorithm_;
  std::string id_;
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
};

}  // namespace upscaled::test
