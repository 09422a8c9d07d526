#include "server/identity/tenant_file.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/identity/strict_json.h"

namespace upscaled::server {
namespace {

using nlohmann::json;

constexpr size_t kMaxTenants = 10'000;
// A terapixel, a terabyte: a higher limit has no effect.
constexpr int64_t kMaxCount = 1'000'000'000'000;
constexpr double kMaxCallSeconds = 1'000'000, kMinWeight = 0.01, kMaxWeight = 100;

absl::StatusOr<int64_t> CountOf(const json& entry, const char* field) {
  const auto found = entry.find(field);
  if (found == entry.end()) return TenantLimits::kNone;
  if (found->is_number_integer() && *found >= 1 && *found <= kMaxCount) {
    return found->get<int64_t>();
  }
  return Wrong(absl::StrCat("\"", field, "\" must be a whole number from 1 to ", kMaxCount));
}

absl::StatusOr<double> NumberOf(const json& entry, const char* field, double minimum,
                                double maximum, double otherwise) {
  const auto found = entry.find(field);
  if (found == entry.end()) return otherwise;
  if (found->is_number() && *found >= minimum && *found <= maximum) return found->get<double>();
  return Wrong(absl::StrCat("\"", field, "\" must be a number from ", minimum, " to ", maximum));
}

absl::StatusOr<Priority> PriorityOf(const json& entry) {
  if (!entry.contains("priority")) return Priority::kInteractive;
  ASSIGN_OR_RETURN(const std::string name, TextOf(entry, "priority"));
  if (const std::optional<Priority> priority = ParsePriority(name)) return *priority;
  return Wrong(
      absl::StrCat("\"priority\" is ", Shown(name), "; there are interactive and background"));
}

absl::StatusOr<TenantLimits> ParseTenant(const std::string& name, const json& entry) {
  RETURN_IF_ERROR(CheckName(name));
  if (!entry.is_object()) return Wrong("must be an object");
  RETURN_IF_ERROR(OnlyHas(entry, {"calls", "queue_pixels", "pixels_per_second", "bytes_per_second",
                                  "call_seconds", "priority", "weight"}));
  TenantLimits limits{.tenant = name};
  ASSIGN_OR_RETURN(limits.max_calls, CountOf(entry, "calls"));
  ASSIGN_OR_RETURN(limits.max_queue_pixels, CountOf(entry, "queue_pixels"));
  ASSIGN_OR_RETURN(limits.pixels_per_second, CountOf(entry, "pixels_per_second"));
  ASSIGN_OR_RETURN(limits.bytes_per_second, CountOf(entry, "bytes_per_second"));
  if (entry.contains("call_seconds")) {
    ASSIGN_OR_RETURN(const double seconds, NumberOf(entry, "call_seconds", 1, kMaxCallSeconds, 0));
    limits.max_call_time = absl::Seconds(seconds);
  }
  ASSIGN_OR_RETURN(limits.priority, PriorityOf(entry));
  ASSIGN_OR_RETURN(limits.weight, NumberOf(entry, "weight", kMinWeight, kMaxWeight, 1));
  return limits;
}

}  // namespace

absl::StatusOr<TenantTable> ParseTenants(const json& tenants, const std::string& file) {
  if (!tenants.is_object()) return Wrong(absl::StrCat(file, ": \"tenants\" must be an object"));
  if (tenants.size() > kMaxTenants) {
    return Wrong(absl::StrCat(file, ": has ", tenants.size(), " tenants; at most ", kMaxTenants));
  }
  TenantTable table;
  for (const auto& [name, entry] : tenants.items()) {
    absl::StatusOr<TenantLimits> limits = ParseTenant(name, entry);
    if (!limits.ok()) {
      return Wrong(absl::StrCat(file, ": tenants[", Shown(name), "]: ", limits.status().message()));
    }
    table[name] = std::make_shared<const TenantLimits>(*std::move(limits));
  }
  return table;
}

}  // namespace upscaled::server
