#include "server/results/digest.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"
#include "engine/base/string_view.h"
#include "engine/image/memory_io.h"

namespace upscaled::server {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  if (context_ == nullptr) throw std::bad_alloc();
  UPSCALED_CHECK(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
}

Sha256& Sha256::Update(std::span<const uint8_t> bytes) {
  UPSCALED_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256& Sha256::Field(std::string_view text) {
  Field(static_cast<int64_t>(text.size()));
  return Update(AsBytes(text));
}

Sha256& Sha256::Field(int64_t number) {
  std::array<uint8_t, sizeof number> bytes;  // little endian, whatever the machine
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(static_cast<uint64_t>(number) >> (8 * i));
  }
  return Update(bytes);
}

Sha256& Sha256::Field(double number) { return Field(std::bit_cast<int64_t>(number)); }

Digest Sha256::Finish() {
  Digest digest;
  UPSCALED_CHECK(EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr) == 1);
  return digest;
}

Digest DigestOf(std::span<const uint8_t> bytes) { return Sha256().Update(bytes).Finish(); }

std::string ToHex(const Digest& digest) { return absl::BytesToHexString(ToAbsl(AsText(digest))); }

bool IsHexDigest(std::string_view text) {
  return text.size() == 2 * sizeof(Digest) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<Digest> DigestFromBytes(std::string_view bytes) {
  Digest digest;
  if (bytes.size() != digest.size()) return std::nullopt;
  std::memcpy(digest.data(), bytes.data(), digest.size());
  return digest;
}

}  // namespace upscaled::server
