// The payer of a call, and the operator's limits for a tenant.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace upscaled::server {

// Strict priority: background tiles run only while no interactive tile is queued.
enum class Priority : uint8_t { kInteractive, kBackground };
inline constexpr size_t kPriorities = 2;

// nullopt: `name` is neither "interactive" nor "background".
inline std::optional<Priority> ParsePriority(std::string_view name) {
  if (name == "interactive") return Priority::kInteractive;
  if (name == "background") return Priority::kBackground;
  return std::nullopt;
}

// The limits of all calls of a tenant together, over all keys and addresses. Pixels are source
// pixels of general-2x, as those of --max-queue-pixels: other models' weigh by theirs.
struct TenantLimits {
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  std::string tenant;
  int64_t max_calls = kNone;          // at a time
  int64_t max_queue_pixels = kNone;   // admitted and not yet computed
  int64_t pixels_per_second = kNone;  // admitted
  int64_t bytes_per_second = kNone;   // received
  absl::Duration max_call_time = absl::InfiniteDuration();
  Priority priority = Priority::kInteractive;
  double weight = 1;  // of its share of the devices, relative to others'
};

// Calls of one payer share its service. A payer is a tenant or, if the server asks for no keys, an
// address.
struct Payer {
  std::string address;                         // the client's, without a port; empty: nobody's
  std::string tenant;                          // empty: the server asks for no keys
  std::shared_ptr<const TenantLimits> limits;  // the tenant's; null: there are none
  Priority asked = Priority::kInteractive;     // by the call

  const std::string& name() const { return tenant.empty() ? address : tenant; }
  // The later one of the call's and its tenant's.
  Priority priority() const {
    return limits == nullptr ? asked : std::max(asked, limits->priority);
  }
  double weight() const { return limits == nullptr ? 1 : limits->weight; }
};

// The cost of a computation so far, in multiply-adds: each tile from when it begins to run: it is
// known at once when the computation is stopped.
using CostMeter = std::atomic<int64_t>;

}  // namespace upscaled::server
