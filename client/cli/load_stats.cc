#include "client/cli/load_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/error_details.h"

namespace upscaled::client {

double Percentile(std::span<const double> sorted, double percent) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(percent * static_cast<double>(sorted.size()) / 100);
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

void LoadStats::AddSuccess(absl::Duration latency, int64_t source_pixels) {
  latencies_ms_.push_back(absl::ToDoubleMilliseconds(latency));
  source_pixels_ += source_pixels;
}

void LoadStats::AddError(const absl::Status& error) {
  const std::string reason = DetailsOf(error).reason;
  std::string key = absl::StatusCodeToString(error.code());
  if (!reason.empty()) absl::StrAppend(&key, " ", reason);
  ++errors_[key];
  sample_error_ = error;
}

void LoadStats::Add(const LoadStats& other) {
  latencies_ms_.insert(latencies_ms_.end(), other.latencies_ms_.begin(), other.latencies_ms_.end());
  source_pixels_ += other.source_pixels_;
  for (const auto& [key, count] : other.errors_) errors_[key] += count;
  if (!other.sample_error_.ok()) sample_error_ = other.sample_error_;
}

int64_t LoadStats::errors() const {
  return std::accumulate(errors_.begin(), errors_.end(), int64_t{0},
                         [](int64_t sum, const auto& entry) { return sum + entry.second; });
}

nlohmann::json LoadStats::ToJson(absl::Duration elapsed) const {
  std::vector<double> sorted = latencies_ms_;
  std::sort(sorted.begin(), sorted.end());
  const double seconds = absl::ToDoubleSeconds(elapsed);
  const double mean =
      sorted.empty() ? 0 : std::accumulate(sorted.begin(), sorted.end(), 0.0) / sorted.size();
  return {{"elapsed_s", seconds},
          {"requests", successes()},
          {"requests_per_s", successes() / seconds},
          {"source_mpx_per_s", source_pixels_ / 1e6 / seconds},
          {"latency_ms",
           {{"mean", mean},
            {"p50", Percentile(sorted, 50)},
            {"p90", Percentile(sorted, 90)},
            {"p99", Percentile(sorted, 99)},
            {"max", Percentile(sorted, 100)}}},
          {"errors", errors_}};
}

std::string LoadStats::ToText(absl::Duration elapsed) const {
  const nlohmann::json json = ToJson(elapsed);
  const nlohmann::json& latency = json["latency_ms"];
  const auto ms = [&](const char* name) { return latency[name].get<double>(); };
  std::string text = absl::StrFormat(
      "requests    %d in %.2f s\n"
      "throughput  %.2f requests/s, %.3f source Mpx/s\n"
      "latency ms  mean %.2f  p50 %.2f  p90 %.2f  p99 %.2f  max %.2f\n"
      "errors      %d\n",
      successes(), absl::ToDoubleSeconds(elapsed), json["requests_per_s"].get<double>(),
      json["source_mpx_per_s"].get<double>(), ms("mean"), ms("p50"), ms("p90"), ms("p99"),
      ms("max"), errors());
  for (const auto& [key, count] : errors_) absl::StrAppendFormat(&text, "  %6d  %s\n", count, key);
  return text;
}

}  // namespace upscaled::client
