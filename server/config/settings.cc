#include "server/config/settings.h"

#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/address_prefix.h"
#include "server/base/endpoint.h"
#include "server/config/places.h"
#include "server/config/values.h"
#include "server/fetch/url_prefix.h"

namespace upscaled::server {
namespace {

constexpr int kMaxThreads = 4096;
constexpr int kMaxRequests = 100'000;
constexpr int kMaxConnections = 1'000'000;
// Both travel in one message, results included, and messages end at 2 GiB.
constexpr int64_t kMaxUnaryBytes = int64_t{256} << 20;
constexpr int64_t kMaxQueuePixels = 10'000'000'000'000;  // whose work fits into an int64_t
constexpr int64_t kMaxTilePixels = 64'000'000;
constexpr int64_t kMaxMetadataBytes = int64_t{1} << 30;
constexpr int64_t kMaxHeldBytes = int64_t{1} << 30;
constexpr int kMaxJpegScans = 10'000;
constexpr int kMaxFrames = 1'000'000;
constexpr int64_t kMaxClientRate = int64_t{1} << 30;
constexpr int64_t kNoMaximum = std::numeric_limits<int64_t>::max();

constexpr size_t kMaxShownCharacters = 256;

// A validator's answer: "" when it takes `text`.
std::string Answer(const std::string& text, const absl::Status& status) {
  if (status.ok()) return "";
  if (text.size() <= kMaxShownCharacters) return absl::StrCat("\"", text, "\" ", status.message());
  return absl::StrCat("\"", text.substr(0, kMaxShownCharacters), "...\" (", text.size(),
                      " characters) ", status.message());
}

absl::Status CheckDirectory(const std::string& text) {
  std::error_code error;
  if (std::filesystem::is_directory(text, error)) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("is no directory that can be read", error ? ": " : "",
                   error ? std::generic_category().message(error.value()) : std::string()));
}

absl::Status CheckNotEmpty(const std::string& text) {
  if (!text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("must not be empty");
}

// As browsers send it: nothing after the host or the port.
absl::Status CheckOrigin(const std::string& text) {
  const size_t host = text.find("://");
  if (text == "*" || (host != std::string::npos && host > 0 && host + 3 < text.size() &&
                      text.find_first_of("/ ?#", host + 3) == std::string::npos)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be * or an origin like https://example.org:8443");
}

absl::Status CheckHttpUrl(const std::string& text) {
  for (const char* scheme : {"http://", "https://"}) {
    if (!absl::StartsWith(text, scheme)) continue;
    const size_t host = std::string_view(scheme).size();
    if (text.find_first_of("/?#", host) != host && text.size() > host) return absl::OkStatus();
  }
  return absl::InvalidArgumentError("must be a URL like http://127.0.0.1:4318");
}

absl::Status CheckUrlPrefix(const std::string& text) { return UrlPrefix::Parse(text).status(); }

std::string_view SwitchName(bool on) { return on ? "on" : "off"; }

// Adds options to an app. Their validators write the read values into the fields given here.
class SettingList {
 public:
  explicit SettingList(CLI::App& app) : app_(app) {}

  // The group of the following options.
  void Group(const std::string& name) { app_.option_defaults()->group(name); }

  // One value: `read` gives it from a text, `print` a readable text.
  template <typename T, typename Read, typename Print>
  CLI::Option* Add(const char* name, const char* type, const char* help, T& field, Read read,
                   Print print) {
    CLI::Option* const option = Option(name, type, help, /*separator=*/0, [&field, print] {
      return std::vector<std::string>{print(field)};
    });
    const CLI::Validator once([](std::string&) { return std::string("is given more than once"); },
                              /*validator_desc=*/"");
    return option->check(once.application_index(1))->check([&field, read](const std::string& text) {
      auto value = read(text);
      if (value.ok()) field = static_cast<T>(*std::move(value));
      return Answer(text, value.status());
    });
  }

  // Several values, each checked by `check`.
  template <typename T>
  void Repeated(const char* name, const char* type, const char* help, std::vector<T>& field,
                char separator, absl::Status (*check)(const std::string&)) {
    const auto store = [&field](const CLI::results_t& texts) {
      field.assign(texts.begin(), texts.end());
      return true;
    };
    const auto values = [&field] { return std::vector<std::string>(field.begin(), field.end()); };
    Option(name, type, help, separator, values, store)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args()
        ->check([check](const std::string& text) { return Answer(text, check(text)); });
  }

  // A flag without a value turns it on.
  void Switch(const char* name, const char* help, bool& field) {
    const auto store = [&field](const CLI::results_t& texts) {
      field = texts.front().empty() || texts.front() == "on";
      return true;
    };
    const auto values = [&field] {
      return std::vector<std::string>{std::string(SwitchName(field))};
    };
    Option(name, "[on|off]", help, /*separator=*/0, values, store)
        ->expected(0, 1)
        ->default_str("")  // what CLI11 takes a flag alone for
        ->check([](const std::string& text) {
          const bool known = text == "on" || text == "off";
          return Answer(text, known ? absl::OkStatus()
                                    : absl::InvalidArgumentError("must be one of on, off"));
        });
  }

  template <typename T>  // a string or a path
  CLI::Option* Text(const char* name, const char* type, const char* help, T& field) {
    return Add(
        name, type, help, field, [](const std::string& text) { return absl::StatusOr<T>(text); },
        [](const T& value) { return std::string(value); });
  }

  void Address(const char* name, const char* help, std::string& field, bool may_be_off) {
    const auto read = [may_be_off](const std::string& text) -> absl::StatusOr<std::string> {
      if (may_be_off && text == "off") return "";
      RETURN_IF_ERROR(ParseEndpoint(text).status());
      return text;
    };
    Add(name, "ADDRESS", help, field, read,
        [](const std::string& value) { return value.empty() ? "off" : value; });
  }

  void Integer(const char* name, const char* help, int& field, int min, int max) {
    Add(
        name, "N", help, field,
        [=](const std::string& text) { return ParseInteger(text, min, max); },
        [](int value) { return absl::StrCat(value); });
  }

  CLI::Option* Bytes(const char* name, const char* help, int64_t& field, int64_t max = kNoMaximum) {
    return Quantity(name, "BYTES", help, field, max, ParseBytes, FormatBytes);
  }

  void BytesOrNone(const char* name, const char* help, int64_t& field) {
    const auto read = [](const std::string& text) -> absl::StatusOr<int64_t> {
      if (text == "0") return 0;
      return ParseBytes(text);
    };
    Add(name, "BYTES", help, field, read,
        [](int64_t value) { return value == 0 ? std::string("0") : FormatBytes(value); });
  }

  void Pixels(const char* name, const char* help, int64_t& field, int64_t max = kNoMaximum) {
    Quantity(name, "PIXELS", help, field, max, ParsePixels, FormatPixels);
  }

  void Timeout(const char* name, const char* help, absl::Duration& field) {
    Add(name, "TIME", help, field, ParseTimeout, absl::FormatDuration);
  }

  void Delay(const char* name, const char* help, absl::Duration& field) {
    Add(name, "TIME", help, field, ParseDelay, absl::FormatDuration);
  }

  // One of the names of `values` by `name_of`.
  template <typename T>
  void Choice(const char* name, const char* type, const char* help, T& field,
              std::string_view (*name_of)(T), std::vector<T> values) {
    const auto read = [=](const std::string& text) -> absl::StatusOr<T> {
      std::vector<std::string> names;
      for (const T value : values) {
        if (names.emplace_back(name_of(value)) == text) return value;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
    };
    Add(name, type, help, field, read, [=](T value) { return std::string(name_of(value)); });
  }

  std::vector<Setting> Take() { return std::move(settings_); }

 private:
  CLI::Option* Option(const char* name, const char* type, const char* help, char separator,
                      std::function<std::vector<std::string>()> values,
                      CLI::callback_t store = {}) {
    CLI::Option* const option =
        app_.add_option(absl::StrCat("--", name), std::move(store), help, /*defaulted=*/true,
                        [values] { return absl::StrJoin(values(), ", "); });
    settings_.push_back({name, option, std::move(values), separator});
    return option->type_name(type);
  }

  CLI::Option* Quantity(const char* name, const char* type, const char* help, int64_t& field,
                        int64_t max, absl::StatusOr<int64_t> (*parse)(std::string_view),
                        std::string (*format)(int64_t)) {
    const auto read = [=](const std::string& text) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(const int64_t value, parse(text));
      if (value <= max) return value;
      return absl::InvalidArgumentError(absl::StrCat("must be at most ", format(max)));
    };
    return Add(name, type, help, field, read, format);
  }

  CLI::App& app_;
  std::vector<Setting> settings_;
};

void AddListening(SettingList& list, ServerConfig& config) {
  list.Group("Listening");
  list.Address("listen",
               "address of the gRPC service: HOST:PORT (port 0 takes a free one), or unix:PATH, a "
               "socket with permissions by the umask",
               config.listen, /*may_be_off=*/false);
  list.Address("http", "address of the service and of health checks over HTTP, or off", config.http,
               /*may_be_off=*/true);
  list.Choice("web", "on|off", "the page and the documentation on the HTTP port", config.web,
              SwitchName, {true, false});
  list.Repeated("cors-origins", "ORIGIN",
                "origin of web pages that may call the HTTP port (https://example.org), or * for "
                "any; may be given several times (in the environment: separated by commas)",
                config.cors_origins, ',', CheckOrigin);
  list.Repeated("trusted-proxies", "NETWORK",
                "address or network (10.0.0.0/8) of your proxies, or unix; their X-Forwarded-For "
                "or Forwarded names the clients for limits, fairness and logs; may be given "
                "several times (in the environment: separated by commas)",
                config.trusted_proxies, ',',
                [](const std::string& text) { return ParseAddressPrefix(text).status(); });
  list.Address("admin",
               "address for operators, or off: metrics and health over HTTP, AdminService and "
               "reflection over gRPC; with TLS as the others, unless it is a loopback address or a "
               "Unix socket",
               config.admin, /*may_be_off=*/true);
  list.Timeout("max-connection-age",
               "close connections after this time, so that clients find new replicas",
               config.max_connection_age);
  list.Timeout("idle-timeout", "close gRPC connections that have had no call for this time",
               config.idle_timeout);
  list.Integer("max-connections", "connections to each port at a time; more are closed at once",
               config.max_connections, 1, kMaxConnections);
  list.Integer(
      "max-connections-per-address",
      "connections to each port from one address (IPv6: from one /64; Unix sockets: of one "
      "user); behind a proxy, all connections come from the proxy's",
      config.max_connections_per_address, 1, kMaxConnections);
}

void AddModels(SettingList& list, ServerConfig& config) {
  list.Repeated("model-repository", "DIR",
                "directory with a folder for each model; may be given several times; if a name "
                "repeats, the earlier one wins; the bundled models come last",
                config.model_repositories, ':', CheckDirectory);
  list.Text("default-model", "NAME",
            "model for requests without one; empty: the alias \"default\" of the repositories, "
            "otherwise general-2x",
            config.default_model);
  list.Repeated("allow-licences", "LICENCE",
                "serve only models with this licence in their cards (CC0-1.0), or unstated; may be "
                "given several times (in the environment: separated by commas); if not given, all "
                "models are served",
                config.allowed_licences, ',', CheckNotEmpty);
}

void AddDevices(SettingList& list, ServerConfig& config) {
  list.Repeated("device", "NAME",
                "device to compute on: auto, cpu, cuda or opencl (the first of them), cuda:N, "
                "opencl:P.D or reference; may be given several times (in the environment: "
                "separated by commas), the preferred one first",
                config.devices, ',', CheckNotEmpty);
  list.Integer(
      "threads",
      "threads that compute on the cpu; 0: one per physical core of the machine or container",
      config.threads, 0, kMaxThreads);
  list.Text("cpu-isa", "NAME", "force an instruction set of the cpu; empty: the best",
            config.cpu_isa);
  list.Text("cache-folder", "DIR",
            "folder for compiled OpenCL programs, writable only by this user; empty: compile at "
            "every start",
            config.cache_folder);
  list.Choice("precision", "exact|fast",
              "arithmetic for requests without one; models without fast use exact",
              config.precision, PrecisionName, {Precision::kExact, Precision::kFast});
  list.Choice("tune", "off|load|fast|full",
              "kernels and tiles: as shipped (off), from --tune-file (load), or measured when a "
              "model first loads and saved there, 0.05 s (fast) or 0.5 s (full) per kind of layer; "
              "replicas with the same table give the same bytes",
              config.tune, TuneModeName,
              {TuneMode::kOff, TuneMode::kLoad, TuneMode::kFast, TuneMode::kFull});
  list.Text("tune-file", "FILE",
            "table of measured kernels and tiles, for --tune; kernel-proofs.json in the same "
            "folder records which new GPU kernels are proven, also with --tune=off",
            config.tune_file);
}

void AddLimits(SettingList& list, Limits& limits) {
  list.Group("Limits");
  list.Pixels("max-source-pixels", "pixels of a source image", limits.max_source_pixels);
  list.Pixels("max-result-pixels", "pixels of a result", limits.max_result_pixels);
  list.Bytes("max-source-bytes", "bytes of an encoded source", limits.max_source_bytes);
  list.Bytes("max-metadata-bytes",
             "bytes of a source before its pixels, and their size after inflating",
             limits.max_metadata_bytes, kMaxMetadataBytes);
  list.Integer("max-jpeg-scans", "scans of a progressive JPEG", limits.max_jpeg_scans, 1,
               kMaxJpegScans);
  list.Integer("max-frames", "frames of an animation", limits.max_frames, 1, kMaxFrames);
  list.Timeout("max-request-time",
               "refuse a request if its networks would take longer on idle devices, by the "
               "forecast from its image's header",
               limits.max_request_time);
  list.Bytes("max-unary-bytes", "bytes of an encoded source in the unary call",
             limits.max_unary_bytes, kMaxUnaryBytes);
  list.Pixels("max-tile-pixels", "pixels of one raw tile", limits.max_tile_pixels, kMaxTilePixels);
  list.Integer("max-concurrent-requests",
               "calls at a time; further calls are refused with a retry delay",
               limits.max_concurrent_requests, 1, kMaxRequests);
  list.Integer(
      "max-requests-per-address",
      "calls at a time of one client address; it may reserve the same share of --memory-budget, at "
      "least a quarter; 0: three quarters of --max-concurrent-requests; behind a proxy give the "
      "value of --max-concurrent-requests",
      limits.max_requests_per_address, 0, kMaxRequests);
  list.Pixels("max-queue-pixels",
              "work admitted and not yet computed, in source pixels of general-2x; pixels of other "
              "models weigh by their multiply-adds; one request counts as at most a quarter",
              limits.max_queue_pixels, kMaxQueuePixels);
}

// Memory and disk, in the group of limits.
void AddBudgets(SettingList& list, ServerConfig& config) {
  list.Bytes("memory-budget",
             "memory that all requests together may reserve; an image that alone needs more gets "
             "413, one that finds it in use by others 429",
             config.memory_budget_bytes)
      ->default_str("half of the memory of the machine or container");
  list.Bytes("weight-memory",
             "memory of a device's networks between requests; beyond it, unused networks are "
             "dropped, the longest unused first, and loaded again on demand",
             config.weight_memory_bytes)
      ->default_str("a quarter of the memory of the machine or container");
  list.Choice("decode-sandbox", "auto|on|off",
              "decode images in processes without access to files or network; auto: if the system "
              "supports it; HEIC is read only in them",
              config.decode_sandbox, SandboxModeName,
              {SandboxMode::kAuto, SandboxMode::kOn, SandboxMode::kOff});
  list.Bytes("transport-memory",
             "memory of gRPC's connections for messages in transit, in addition to "
             "--memory-budget; when it is full, calls are ended",
             config.transport_memory_bytes);
  list.Bytes("output-ring-bytes", "bytes of encoded result held per call for a slow reader",
             config.output_ring_bytes);
  list.Text("spool-dir", "DIR",
            "folder for uploads and for results that their clients have not taken, in files "
            "without names",
            config.spool_dir)
      ->default_str("TMPDIR, otherwise /var/tmp or /tmp");
  list.BytesOrNone(
      "spool-bytes",
      "disk space for --spool-dir; 0: none, clients wait instead, but browsers can hang",
      config.spool_bytes);
}

void AddResults(SettingList& list, ServerConfig& config) {
  list.Group("Results");
  list.Text(
      "result-cache", "DIR",
      "directory to store results in, used by this server only; empty: results are not stored",
      config.result_cache);
  list.Bytes("result-cache-bytes",
             "size of the stored results; the least recently used make room for new ones; a result "
             "larger than a quarter of it is not stored",
             config.result_cache_bytes);
  list.Bytes("hold-source-bytes",
             "receive encoded sources up to this size whole before computing, so that equal "
             "requests are computed once; larger ones are computed as they arrive",
             config.hold_source_bytes, kMaxHeldBytes);
}

void AddJobs(SettingList& list, ServerConfig& config) {
  list.Group("Jobs");
  list.Text(
      "job-queue", "DIR|URL",
      "queue for HTTP calls with Prefer: respond-async, served by upscale-worker: a folder, "
      "redis://HOST, nats://HOST or postgresql://HOST/DATABASE, with --job-store; empty: such "
      "calls are answered with their images",
      config.job_queue);
  list.Text("job-store", "DIR",
            "folder for sources and results of jobs; the workers need it under the same path",
            config.job_store);
  list.Bytes("job-store-bytes",
             "approximate size of --job-store; one tenant may use half of it; when it is full, "
             "calls for new jobs are refused with a retry delay",
             config.job_store_bytes);
  list.Timeout("job-retention", "time to keep the results of ended jobs in --job-store",
               config.job_retention);
}

void AddFetching(SettingList& list, ServerConfig& config) {
  list.Group("Sources by URL");
  list.Repeated("fetch-allow", "URL",
                "fetch images for HTTP calls with url=... if the URL begins with this, such as "
                "https://images.example.com/public/, or a host; https unless it says http://; only "
                "from public addresses; may be given several times (in the environment: separated "
                "by spaces); if not given, nothing is fetched",
                config.fetch_allow, ' ', CheckUrlPrefix);
  list.Repeated(
      "fetch-allow-private", "URL",
      "same as --fetch-allow, for your own hosts: their addresses may be private or loopback",
      config.fetch_allow_private, ' ', CheckUrlPrefix);
  list.Timeout("fetch-timeout",
               "give up a source if waiting for it takes longer, redirects included",
               config.fetch_timeout);
  list.Timeout(
      "fetch-stall-timeout",
      "give up a source if its host does not connect, or sends less than 16 KiB, in this time",
      config.fetch_stall_timeout);
  list.Text("fetch-ca", "FILE",
            "PEM certificates of authorities to trust when fetching; empty: the system's",
            config.fetch_ca);
}

void AddTimeouts(SettingList& list, ServerConfig& config) {
  list.Group("Timeouts");
  list.Timeout("start-timeout",
               "time for a call's request, or the first message of a stream, to come",
               config.start_timeout);
  list.Timeout("stall-timeout",
               "end a call if the server waits for its client, and the client sends or takes less "
               "than 16 KiB in this time",
               config.stall_timeout);
  list.Bytes("min-client-rate",
             "end a call if the server waits for its client, and the client moves fewer bytes a "
             "second on the average of a --stall-timeout",
             config.min_client_rate, kMaxClientRate);
  list.Timeout("drain-timeout", "after SIGTERM, time for admitted calls to finish",
               config.drain_timeout);
  list.Delay("lame-duck-delay",
             "after SIGTERM, time to serve new calls while health and readiness already fail; then "
             "--drain-timeout begins",
             config.lame_duck_delay);
}

void AddLogging(SettingList& list, ServerConfig& config) {
  list.Group("Logging");
  list.Choice("log-format", "text|json", "log lines, human-readable or JSON", config.log_format,
              LogFormatName, {LogFormat::kText, LogFormat::kJson});
  list.Choice("log-level", "LEVEL", "least level to log: debug, info, warning or error",
              config.log_level, LogLevelName,
              {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError});
  list.Text("audit-log", "FILE",
            "append a JSON line for each ended or refused call: principal, address, method, sizes, "
            "outcome; SIGHUP reopens the file; empty: no audit log",
            config.audit_log);
  list.Text("usage-db", "FILE",
            "add up calls, work, bytes and refusals per tenant and day in this file, for \"upscale "
            "usage\"; empty: off",
            config.usage_db);
  list.Add(
      "trace-endpoint", "URL",
      "send spans of calls to this trace collector (OTLP over HTTP), such as "
      "http://127.0.0.1:4318; empty: off",
      config.trace_endpoint,
      [](const std::string& text) -> absl::StatusOr<std::string> {
        if (!text.empty()) RETURN_IF_ERROR(CheckHttpUrl(text));
        return text;
      },
      [](const std::string& text) { return text; });
  list.Add("trace-ratio", "RATIO",
           "share of the traces begun here to send, from 0 to 1; callers decide about their own "
           "(traceparent)",
           config.trace_ratio, ParseRatio, [](double ratio) { return absl::StrCat(ratio); });
}

void AddTls(SettingList& list, TlsConfig& tls) {
  list.Group("TLS");
  list.Text("tls-cert", "FILE", "PEM certificate chain; turns TLS on, with --tls-key", tls.cert);
  list.Text("tls-key", "FILE", "PEM private key of --tls-cert", tls.key);
  list.Text("tls-client-ca", "FILE",
            "PEM certificates of authorities; clients must present a certificate signed by one",
            tls.client_ca);
}

void AddIdentity(SettingList& list, ServerConfig& config) {
  list.Group("Callers");
  list.Text("auth-keys", "FILE",
            "JSON file of principals, by API keys (see \"upscaled keys new\"), names of client "
            "certificates and issuers of tokens (JWT); reloaded when it changes",
            config.auth_keys);
  list.Switch("allow-anonymous",
              "serve every caller, even on addresses that other machines can reach; without it and "
              "without --auth-keys the server does not start on such an address",
              config.allow_anonymous);
  list.Text(
      "url-keys", "FILE",
      "JSON file of the keys that sign URLs (see \"upscaled keys url\"): GET /v1/upscale with "
      "such a signature needs no other key; reloaded when it changes",
      config.url_keys);
  list.Timeout("url-max-age",
               "time that browsers and caches may keep the answer to a signed URL, at most until "
               "the URL ends",
               config.url_max_age);
}

}  // namespace

std::string_view TuneModeName(TuneMode mode) {
  constexpr std::string_view kNames[] = {"off", "load", "fast", "full"};
  return kNames[static_cast<int>(mode)];
}

std::string_view SandboxModeName(SandboxMode mode) {
  constexpr std::string_view kNames[] = {"auto", "on", "off"};
  return kNames[static_cast<int>(mode)];
}

std::vector<Setting> AddSettings(CLI::App& app, ServerConfig& config) {
  SettingList list(app);
  AddListening(list, config);
  list.Group("Models and devices");
  AddModels(list, config);
  AddDevices(list, config);
  AddLimits(list, config.limits);
  AddBudgets(list, config);
  AddResults(list, config);
  AddJobs(list, config);
  AddFetching(list, config);
  AddTimeouts(list, config);
  AddLogging(list, config);
  AddTls(list, config.tls);
  AddIdentity(list, config);
  return list.Take();
}

std::string EnvironmentName(std::string_view setting) {
  return absl::StrCat("UPSCALED_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(ToAbsl(setting), {{"-", "_"}})));
}

}  // namespace upscaled::server
