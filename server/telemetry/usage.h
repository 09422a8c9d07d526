// The usage of a tenant on a day.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/civil_time.h"

namespace upscaled::server {

struct Usage {
  int64_t calls = 0;     // ended, however
  int64_t refusals = 0;  // of these: turned away, for a limit, a lacking right, or being closed
  int64_t cost = 0;      // computed, in multiply-adds
  int64_t received_bytes = 0, sent_bytes = 0;
  int64_t source_pixels = 0, result_pixels = 0;

  Usage& operator+=(const Usage& other) {
    calls += other.calls;
    refusals += other.refusals;
    cost += other.cost;
    received_bytes += other.received_bytes;
    sent_bytes += other.sent_bytes;
    source_pixels += other.source_pixels;
    result_pixels += other.result_pixels;
    return *this;
  }
  friend bool operator==(const Usage&, const Usage&) = default;
};

struct UsageKey {
  absl::CivilDay day;  // of UTC
  std::string tenant;  // "": callers that nobody knows

  friend bool operator<(const UsageKey& a, const UsageKey& b) {
    return a.day != b.day ? a.day < b.day : a.tenant < b.tenant;
  }
  friend bool operator==(const UsageKey&, const UsageKey&) = default;
};

struct UsageRow {
  UsageKey key;
  Usage usage;
};

struct UsageQuery {
  absl::CivilDay first, last;
  std::string tenant;  // "": all
};

}  // namespace upscaled::server
