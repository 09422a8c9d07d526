// Counts a load generator's observations.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace upscaled::client {

// The smallest value not passed by at least `percent` % of `sorted` (ascending): the nearest rank.
// 0 for no values.
double Percentile(std::span<const double> sorted, double percent);

// The observations of one client or, added up, of all.
class LoadStats {
 public:
  void AddSuccess(absl::Duration latency, int64_t source_pixels);
  void AddError(const absl::Status& error);
  void Add(const LoadStats& other);

  int64_t successes() const { return static_cast<int64_t>(latencies_ms_.size()); }
  int64_t errors() const;
  // Some error, for its message; OK without errors.
  const absl::Status& sample_error() const { return sample_error_; }

  // Rates over `elapsed`, latencies of the successes, errors by code.
  nlohmann::json ToJson(absl::Duration elapsed) const;
  std::string ToText(absl::Duration elapsed) const;

 private:
  std::vector<double> latencies_ms_;
  int64_t source_pixels_ = 0;
  std::map<std::string, int64_t> errors_;
  absl::Status sample_error_;
};

}  // namespace upscaled::client
