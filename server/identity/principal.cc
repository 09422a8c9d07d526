#include "server/identity/principal.h"

namespace upscaled::server {

std::string_view RoleName(Role role) {
  constexpr std::string_view kNames[] = {"read", "upscale", "admin"};
  return kNames[static_cast<size_t>(role)];
}

std::optional<Role> ParseRole(std::string_view name) {
  for (const Role role : {Role::kRead, Role::kUpscale, Role::kAdmin}) {
    if (RoleName(role) == name) return role;
  }
  return std::nullopt;
}

}  // namespace upscaled::server
