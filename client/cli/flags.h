// Flags that several commands share.
#pragma once

#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/upscale_client.h"

namespace upscaled::client {

// Which server, how to reach it, how long to wait for it.
struct ConnectionFlags {
  static constexpr char kDefaultServer[] = "127.0.0.1:8001";
  std::string server = kDefaultServer;
  bool names_server = false;  // the user does, be it the default
  bool tls = false;
  TlsOptions tls_options;
  int retries = RetryPolicy().max_retries;
  double timeout_s = 0;  // 0: none.

  void AddTo(CLI::App& command);
  absl::StatusOr<ClientOptions> ToOptions() const;
  // Errors are local ones of the arguments.
  absl::StatusOr<std::unique_ptr<UpscaleClient>> MakeClient() const;
};

// How to upscale.
struct UpscaleFlags {
  std::string model;
  std::optional<int> noise;
  std::optional<double> scale;
  int width_px = 0;
  int height_px = 0;
  double prefilter_space = 0;  // 0: no prefilter
  double prefilter_range = 0;
  bool tta = false;
  int tile_px = 0;
  std::string precision;

  void AddTo(CLI::App& command);
  v1::UpscaleOptions ToProto() const;
  v1::Precision ToPrecision() const;
};

// CLI::Range without its words in the help; descriptions say it better.
template <typename T>
CLI::Validator Between(T low, T high) {
  return CLI::Range(low, high).description("");
}

// "png", "jpeg" or "jpg", "webp" in any case, without a dot; UNSPECIFIED for anything else.
v1::ImageFormat ParseFormat(absl::string_view name);
// "png", "jpeg", "webp"; empty for UNSPECIFIED.
std::string FormatName(v1::ImageFormat format);
std::string PrecisionName(v1::Precision precision);

}  // namespace upscaled::client
