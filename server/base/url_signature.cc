#include "server/base/url_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "engine/base/check.h"

namespace upscaled::server {

std::string UrlSignature(std::string_view secret, std::string_view target) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  const auto* const made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(target.data()), target.size(), digest, &length);
  UPSCALED_CHECK(made != nullptr);
  return absl::WebSafeBase64Escape({reinterpret_cast<const char*>(digest), length});
}

}  // namespace upscaled::server
