// SHA-256 (FIPS 180-4), and texts, hashed field by field.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <openssl/evp.h>

namespace upscaled::server {

using Digest = std::array<uint8_t, 32>;

// Thread compatible. Throws std::bad_alloc when there is no memory.
class Sha256 {
 public:
  Sha256();

  Sha256& Update(std::span<const uint8_t> bytes);
  // A field of a record: its length goes first, so no two records give the same bytes.
  Sha256& Field(std::string_view text);
  Sha256& Field(int64_t number);
  Sha256& Field(double number);  // bit by bit
  // Once; nothing may follow.
  Digest Finish();

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

Digest DigestOf(std::span<const uint8_t> bytes);

// 64 lower-case hexadecimal digits.
std::string ToHex(const Digest& digest);
bool IsHexDigest(std::string_view text);

// A digest as bytes of a message; nullopt: not 32 of them.
std::optional<Digest> DigestFromBytes(std::string_view bytes);
inline std::string_view AsText(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace upscaled::server
