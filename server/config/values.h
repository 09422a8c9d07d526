// Reading and printing the values of settings: "64MiB", "100MP", "30s".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace upscaled::server {

// All errors are INVALID_ARGUMENT and say what the value should be, but not the setting's name.

// Decimal only (CLI::Range takes 010 for 8).
absl::StatusOr<int64_t> ParseInteger(std::string_view text, int64_t min, int64_t max);
// From 0 to 1.
absl::StatusOr<double> ParseRatio(std::string_view text);
// Bytes, with an optional suffix KiB, MiB, GiB, TiB (or K, M, G, T: the same powers of two). At
// least 1.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);
// Pixels, with an optional suffix MP or GP, decimal, fractions allowed. At least 1.
absl::StatusOr<int64_t> ParsePixels(std::string_view text);
// "500ms", "30s", "5m", "1h" or "inf"; more than 0.
absl::StatusOr<absl::Duration> ParseTimeout(std::string_view text);
// As a timeout, but "0" and "0s", too, and not "inf".
absl::StatusOr<absl::Duration> ParseDelay(std::string_view text);

std::string FormatBytes(int64_t bytes);    // "64MiB", or plain digits where no unit divides it
std::string FormatPixels(int64_t pixels);  // "100MP", likewise

}  // namespace upscaled::server
