// The identity of a caller, and its rights.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/base/payer.h"

namespace upscaled::server {

// The role a method asks of its caller. docs/security.md says what each role allows.
enum class Role : uint8_t { kRead, kUpscale, kAdmin };
std::string_view RoleName(Role role);  // "read", "upscale", "admin"
std::optional<Role> ParseRole(std::string_view name);

// Adds implied roles: `upscale` implies `read`, `admin` implies all.
class RoleSet {
 public:
  RoleSet() = default;
  RoleSet(std::initializer_list<Role> roles) {
    for (const Role role : roles) Add(role);
  }
  void Add(Role role) {
    for (int implied = 0; implied <= static_cast<int>(role); ++implied) bits_ |= 1u << implied;
  }
  bool Has(Role role) const { return (bits_ >> static_cast<int>(role) & 1) != 0; }

 private:
  unsigned bits_ = 0;
};

struct Principal {
  std::string name;    // of one key
  std::string tenant;  // who owns it; several keys may have the same
  RoleSet roles;
  std::shared_ptr<const TenantLimits> limits = nullptr;  // the tenant's; null: there are none
};

}  // namespace upscaled::server
