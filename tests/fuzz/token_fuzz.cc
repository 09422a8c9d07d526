// Any bytes as a token, as its claims and as the key set that it is looked up in.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/identity/json_web_token.h"
#include "server/identity/key_set.h"
#include "server/identity/token_verifier.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const TokenRules rules{.issuer = "us",
                                .audience = "upscaled",
                                .key_set = "",
                                .tenant_claim = "tenant",
                                .roles_claim = "roles"};
  // The public key of RFC 8037, appendix A: no other key can sign for it.
  static const TokenVerifier verifier(rules,
                                      *KeySet::Parse(R"({"keys": [{"kty": "OKP", "crv": "Ed25519",
                                "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})"));
  if (const auto token = ParseToken(text); token.ok()) {
    if (!text.starts_with(token->signed_part)) std::abort();
    if (verifier.Verify(text).ok() || verifier.Find(text) != nullptr) std::abort();
  }
  if (const auto entry = ReadClaims(text, rules); entry.ok()) {
    const Principal& principal = entry->principal;
    if (!principal.name.starts_with("token:") || principal.tenant.empty()) std::abort();
  }
  if (const auto set = KeySet::Parse(text); set.ok()) {
    if (set->size() == 0 || set->size() > kMaxKeysOfSet) std::abort();
  }
  return 0;
}
