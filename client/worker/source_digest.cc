#include "client/worker/source_digest.h"

#include <openssl/evp.h>

#include <memory>
#include <vector>

#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr size_t kPartBytes = size_t{256} << 10;

}  // namespace

absl::StatusOr<std::string> SourceDigest(ImageSource& source, std::stop_token stop) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     &EVP_MD_CTX_free);
  bool ok = hash != nullptr && EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) == 1;
  std::vector<char> part(kPartBytes);
  while (ok) {
    if (stop.stop_requested()) return absl::CancelledError("cancelled");
    ASSIGN_OR_RETURN(const size_t count, source.Read(part, stop));
    if (count == 0) break;
    ok = EVP_DigestUpdate(hash.get(), part.data(), count) == 1;
  }
  std::string digest(32, '\0');
  ok = ok && EVP_DigestFinal_ex(hash.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                nullptr) == 1;
  if (!ok) return absl::ResourceExhaustedError("no memory for a digest");
  RETURN_IF_ERROR(source.Rewind());
  return digest;
}

}  // namespace upscaled::client
