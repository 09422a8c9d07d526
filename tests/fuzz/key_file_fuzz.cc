// Any bytes as the file of --auth-keys.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "server/identity/key_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace upscaled::server;  // NOLINT
  const auto parsed =
      ParseKeyFile(std::string_view(reinterpret_cast<const char*>(data), size), "keys.json");
  if (!parsed.ok()) return 0;
  std::set<std::string> names;
  for (const auto& [hash, key] : parsed->keys) {
    // Every principal has a name, a role and a time.
    if (!names.insert(key.principal.name).second || key.principal.tenant.empty()) std::abort();
    if (!key.principal.roles.Has(Role::kRead) || key.not_before >= key.expires) std::abort();
  }
  return 0;
}
