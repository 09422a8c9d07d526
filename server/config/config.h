// The server's settings, from flags, environment, a file and defaults, in this order of precedence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/model/precision.h"
#include "server/admission/limits.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {

struct TlsConfig {
  std::filesystem::path cert;       // PEM chain; empty: no TLS
  std::filesystem::path key;        // PEM; given exactly when cert is
  std::filesystem::path client_ca;  // PEM; not empty: clients must present a certificate of it
  bool enabled() const { return !cert.empty(); }
};

// The source of the choice of kernels: the shipped order, a table, or a table that grows by a short
// or a long measurement.
enum class TuneMode { kOff, kLoad, kFast, kFull };
std::string_view TuneModeName(TuneMode mode);  // "off", "load", "fast", "full"

// Whether images are decoded in processes of their own; kAuto: if it works.
enum class SandboxMode { kAuto, kOn, kOff };
std::string_view SandboxModeName(SandboxMode mode);  // "auto", "on", "off"

// Valid by construction through ParseConfig; config/settings.cc documents each one.
struct ServerConfig {
  std::string listen = "127.0.0.1:8001";
  std::string http = "127.0.0.1:8000";       // empty: no HTTP port
  std::string admin = "127.0.0.1:8002";      // empty: no administration port
  bool web = true;                           // the page and the documentation on the HTTP port
  std::vector<std::string> cors_origins;     // of pages that may call it; "*": any
  std::vector<std::string> trusted_proxies;  // addresses and networks, or "unix"
  absl::Duration max_connection_age = absl::InfiniteDuration();
  absl::Duration idle_timeout = absl::Minutes(5);  // of gRPC connections without calls
  int max_connections = 4096;                      // of each port
  int max_connections_per_address = 1024;

  // Existing directories, in order; ends with the bundled models' if it was found.
  std::vector<std::filesystem::path> model_repositories;
  bool bundled_models_last = false;           // whether it does
  std::string default_model;                  // empty: as ModelCatalog::Options says
  std::vector<std::string> allowed_licences;  // empty: any
  std::vector<std::string> devices = {"auto"};
  int threads = 0;                     // 0: as many as the machine or container offers
  std::string cpu_isa;                 // "": the best
  std::filesystem::path cache_folder;  // for compiled programs; "": none
  Precision precision = Precision::kExact;
  TuneMode tune = TuneMode::kOff;
  std::filesystem::path tune_file;  // "": none, and `tune` is kOff

  Limits limits;
  int64_t memory_budget_bytes = 0;  // never 0 after ParseConfig, nor is the next
  int64_t weight_memory_bytes = 0;  // of each device
  int64_t transport_memory_bytes = int64_t{192} << 20;
  int64_t output_ring_bytes = int64_t{1} << 20;
  std::filesystem::path spool_dir;  // empty: SpoolFolder() (spool_folder.h)
  int64_t spool_bytes = int64_t{1} << 30;

  std::filesystem::path result_cache;  // directory; "": results are not stored
  int64_t result_cache_bytes = int64_t{10} << 30;
  int64_t hold_source_bytes = int64_t{4} << 20;

  std::string job_queue;            // folder or URL; "": the server keeps no jobs
  std::filesystem::path job_store;  // absolute; given exactly when job_queue is
  int64_t job_store_bytes = int64_t{10} << 30;
  absl::Duration job_retention = absl::Hours(24);

  std::vector<std::string> fetch_allow, fetch_allow_private;  // of URLs; both empty: none
  absl::Duration fetch_timeout = absl::Seconds(30);
  absl::Duration fetch_stall_timeout = absl::Seconds(10);
  std::filesystem::path fetch_ca;  // PEM; empty: the system's

  absl::Duration start_timeout = absl::Seconds(10);
  absl::Duration stall_timeout = absl::Seconds(60);
  int64_t min_client_rate = 1024;  // bytes a second
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration lame_duck_delay = absl::ZeroDuration();

  SandboxMode decode_sandbox = SandboxMode::kAuto;

  LogFormat log_format = LogFormat::kText;
  LogLevel log_level = LogLevel::kInfo;
  std::filesystem::path audit_log;  // file; empty: none
  std::filesystem::path usage_db;   // likewise
  std::string trace_endpoint;       // URL; empty: calls are not traced
  double trace_ratio = 1;           // of traces that begin here, from 0 to 1

  TlsConfig tls;

  std::filesystem::path auth_keys;  // empty: anybody may call
  bool allow_anonymous = false;     // beyond loopback, without keys
  std::filesystem::path url_keys;   // empty: no signed URLs
  absl::Duration url_max_age = absl::Hours(24);
};

struct ParsedConfig {
  ServerConfig config;
  // Not empty (--help, --version, --print-config): print this and exit with 0.
  std::string printout;
};

// Environment variables by name.
using Environment = std::map<std::string, std::string>;
// `envp` as main's third argument or environ.
Environment ReadEnvironment(const char* const* envp);

// INVALID_ARGUMENT names the flag, variable or key, its value and the accepted ones; for an unknown
// name, the nearest known one. NOT_FOUND: a missing file, or no models.
absl::StatusOr<ParsedConfig> ParseConfig(int argc, const char* const* argv,
                                         const Environment& environment);

// The settings as the table of docs/configuration.md.
std::string SettingsMarkdown();

}  // namespace upscaled::server
