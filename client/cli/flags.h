// Flags of several commands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cli/local_server.h"
#include "client/service.h"
#include "client/upscale_client.h"

namespace upscaled::client {

// A server to call.
struct Connection {
  std::unique_ptr<LocalServer> local;  // null: another's
  std::unique_ptr<Service> service;
  // The state of `local`: OK while it runs.
  absl::Status CheckServer() const { return local == nullptr ? absl::OkStatus() : local->Check(); }
};

// The server, its address, and the time to wait for it.
struct ConnectionFlags {
  static constexpr char kDefaultServer[] = "127.0.0.1:8001";
  std::string server = kDefaultServer;
  bool names_server = false;  // the user does, be it the default
  bool local = false;
  std::string local_program;  // "": see FindServerProgram
  bool tls = false;
  TlsOptions tls_options;
  std::string api_key_file;    // "": see FindApiKey
  std::string trace_endpoint;  // "": no spans are sent
  std::string priority;        // "": the tenant's
  int retries = RetryPolicy().max_retries;
  double timeout_s = 0;  // 0: none.

  RetryPolicy retry() const { return {.max_retries = retries}; }
  absl::Duration timeout() const {
    return timeout_s > 0 ? absl::Seconds(timeout_s) : absl::InfiniteDuration();
  }

  void AddTo(CLI::App& command);
  // --local for a command with sense on a server of its own.
  void AddLocalTo(CLI::App& command);
  // --priority for a command that upscales; `by_default` is one, or "".
  void AddPriorityTo(CLI::App& command, const std::string& by_default);

  // The server of --local; null without. Errors as LocalServer::Start.
  absl::StatusOr<std::unique_ptr<LocalServer>> StartLocal(std::stop_token stop) const;
  // For gRPC with this server, or, where it is null, with --server.
  absl::StatusOr<ClientOptions> ToOptions(const LocalServer* own) const;
  // Null without --trace-endpoint.
  absl::StatusOr<std::shared_ptr<Tracer>> MakeTracer() const;
  // On standard error, if `key` goes to --server unencrypted. The server is valid: it is shown.
  void WarnOfOpenKey(const std::string& key) const;
  // Over gRPC, without --local. Errors are local ones of the arguments.
  absl::StatusOr<std::unique_ptr<UpscaleClient>> MakeClient() const;
  // A client of upscaled's --admin address, 127.0.0.1:8002 unless the user names a server. Errors
  // as MakeClient.
  absl::StatusOr<std::unique_ptr<UpscaleClient>> MakeAdminClient() const;
  // Whether any flag of TLS but --tls is given.
  bool names_tls_files() const;
  // Over gRPC or HTTP, as --server says, or with a server of its own.
  absl::StatusOr<Connection> Connect(std::stop_token stop) const;
};

// How to upscale.
struct UpscaleFlags {
  std::string model;
  std::string noise;  // a level, or "auto"; empty: the server's default
  std::optional<double> scale;
  int width_px = 0;
  int height_px = 0;
  int short_side_px = 0;
  int long_side_px = 0;
  int64_t max_pixels = 0;
  bool no_enlarge = false;
  std::string fit;
  std::string alpha;
  std::string alpha_colour;
  std::string keep_colours;
  std::string on_damage;
  double prefilter_space = 0;  // 0: no prefilter
  double prefilter_range = 0;
  bool tta = false;
  bool seamless = false;
  int tile_px = 0;
  std::string precision;

  void AddTo(CLI::App& command);
  v1::UpscaleOptions ToProto() const;
  // INVALID_ARGUMENT for --noise auto, since it needs a JPEG.
  absl::Status CheckForFilm() const;
  v1::Precision ToPrecision() const;
};

// The format to write, and its options.
struct FormatFlags {
  std::string format;
  int quality = 0;
  std::optional<int> png_compression;
  std::string depth;
  bool keep_16_bit = false;
  std::string metadata;
  std::string frame;  // "all", "first" or a number from 1; empty: all

  void AddTo(CLI::App& command);
  // All but the format: each image has its own.
  void ApplyTo(v1::UpscaleOptions& options) const;
};

// CLI::Range without its words in the help; descriptions say it better.
template <typename T>
CLI::Validator Between(T low, T high) {
  return CLI::Range(low, high).description("");
}

// A format of results by its name or ending in any case, without a dot: "png", "jpeg" or "jpg", ...
// UNSPECIFIED for anything else.
v1::ImageFormat ParseFormat(absl::string_view name);
// "png", "jpeg", "webp", ...; empty for UNSPECIFIED.
std::string FormatName(v1::ImageFormat format);
std::string PrecisionName(v1::Precision precision);

}  // namespace upscaled::client
