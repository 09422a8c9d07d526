// The key file's "tenants": what each may have, over all its keys and addresses.
//
//   {"shop": {"calls": 20, "queue_pixels": 40000000, "pixels_per_second": 2000000,
//             "bytes_per_second": 4000000, "call_seconds": 60, "priority": "background",
//             "weight": 2}}
//
// All fields may be left out. docs/security.md says what they mean.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/base/payer.h"

namespace upscaled::server {

using TenantTable = std::map<std::string, std::shared_ptr<const TenantLimits>, std::less<>>;

// Null: it has none.
inline std::shared_ptr<const TenantLimits> LimitsOf(const TenantTable& tenants,
                                                    const std::string& tenant) {
  const auto limits = tenants.find(tenant);
  return limits == tenants.end() ? nullptr : limits->second;
}

// INVALID_ARGUMENT names the file, the tenant and its fault.
absl::StatusOr<TenantTable> ParseTenants(const nlohmann::json& tenants, const std::string& file);

}  // namespace upscaled::server
