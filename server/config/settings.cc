#include "server/config/settings.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/config/values.h"

namespace upscaled::server {
namespace {

constexpr std::string_view kListening = "Listening";
constexpr std::string_view kDevices = "Models and devices";
constexpr std::string_view kLimits = "Limits";
constexpr std::string_view kTimeouts = "Timeouts";
constexpr std::string_view kLogging = "Logging";
constexpr std::string_view kTls = "TLS";

constexpr int kMaxThreads = 4096;
constexpr int kMaxRequests = 100'000;
// Both travel in one message, results included, and messages end at 2 GiB.
constexpr int64_t kMaxUnaryBytes = int64_t{256} << 20;
constexpr int64_t kMaxTilePixels = 64'000'000;
constexpr int64_t kMaxMetadataBytes = int64_t{1} << 30;
constexpr int kMaxJpegScans = 10'000;
constexpr int64_t kNoMaximum = std::numeric_limits<int64_t>::max();

// --- Settings by the kind of their value. `field` gives a reference into a config. ---

template <typename Field>
Setting Text(std::string_view name, std::string_view group, std::string_view value,
             std::string_view help, Field field) {
  return {name,
          group,
          value,
          help,
          [field](ServerConfig& config, const std::string& text) {
            field(config) = text;
            return absl::OkStatus();
          },
          [field](const ServerConfig& config) { return std::string(field(config)); }};
}

template <typename Field>
Setting Integer(std::string_view name, std::string_view group, std::string_view value,
                std::string_view help, int least, int most, Field field) {
  return {name,
          group,
          value,
          help,
          [field, least, most](ServerConfig& config, const std::string& text) {
            ASSIGN_OR_RETURN(const int64_t number, ParseInteger(text, least, most));
            field(config) = static_cast<int>(number);
            return absl::OkStatus();
          },
          [field](const ServerConfig& config) { return absl::StrCat(field(config)); }};
}

template <typename Field>
Setting Quantity(std::string_view name, std::string_view value, std::string_view help,
                 absl::StatusOr<int64_t> (*parse)(std::string_view), std::string (*format)(int64_t),
                 int64_t most, Field field) {
  return {name,
          kLimits,
          value,
          help,
          [=](ServerConfig& config, const std::string& text) -> absl::Status {
            ASSIGN_OR_RETURN(const int64_t number, parse(text));
            if (number > most) {
              return absl::InvalidArgumentError(absl::StrCat("must be at most ", format(most)));
            }
            field(config) = number;
            return absl::OkStatus();
          },
          [field, format](const ServerConfig& config) { return format(field(config)); }};
}

template <typename Field>
Setting Bytes(std::string_view name, std::string_view help, Field field,
              int64_t most = kNoMaximum) {
  return Quantity(name, "BYTES", help, ParseBytes, FormatBytes, most, field);
}

template <typename Field>
Setting Pixels(std::string_view name, std::string_view help, Field field,
               int64_t most = kNoMaximum) {
  return Quantity(name, "PIXELS", help, ParsePixels, FormatPixels, most, field);
}

template <typename Field>
Setting Timeout(std::string_view name, std::string_view group, std::string_view help, Field field) {
  return {name,
          group,
          "TIME",
          help,
          [field](ServerConfig& config, const std::string& text) {
            ASSIGN_OR_RETURN(field(config), ParseTimeout(text));
            return absl::OkStatus();
          },
          [field](const ServerConfig& config) { return absl::FormatDuration(field(config)); }};
}

// One of the names that `name_of` gives to `values`.
template <typename Value, typename Field>
Setting Choice(std::string_view name, std::string_view group, std::string_view value,
               std::string_view help, std::vector<Value> values, std::string_view (*name_of)(Value),
               Field field) {
  return {name,
          group,
          value,
          help,
          [=](ServerConfig& config, const std::string& text) -> absl::Status {
            std::vector<std::string> names;
            for (const Value candidate : values) {
              names.emplace_back(name_of(candidate));
              if (names.back() != text) continue;
              field(config) = candidate;
              return absl::OkStatus();
            }
            return absl::InvalidArgumentError(
                absl::StrCat("must be one of ", absl::StrJoin(names, ", ")));
          },
          [=](const ServerConfig& config) { return std::string(name_of(field(config))); }};
}

Setting Address(std::string_view name, std::string_view help, std::string ServerConfig::*field,
                bool may_be_off) {
  return {name,
          kListening,
          "HOST:PORT",
          help,
          [=](ServerConfig& config, const std::string& text) {
            const bool off = may_be_off && text == "off";
            if (!off) RETURN_IF_ERROR(CheckAddress(text));
            config.*field = off ? "" : text;
            return absl::OkStatus();
          },
          [=](const ServerConfig& config) {
            return (config.*field).empty() ? std::string("off") : config.*field;
          }};
}

// Several values; `field` is a vector, `check` looks at the text of each.
template <typename Field>
Setting Repeated(std::string_view name, std::string_view group, std::string_view value,
                 std::string_view help, char separator, absl::Status (*check)(const std::string&),
                 Field field) {
  Setting setting = {name,
                     group,
                     value,
                     help,
                     [=](ServerConfig& config, const std::string& text) {
                       RETURN_IF_ERROR(check(text));
                       field(config).emplace_back(text);
                       return absl::OkStatus();
                     },
                     nullptr};
  setting.separator = separator;
  setting.clear = [field](ServerConfig& config) { field(config).clear(); };
  setting.get_all = [field](const ServerConfig& config) {
    const auto& values = field(config);
    return std::vector<std::string>(values.begin(), values.end());
  };
  setting.get = [get_all = setting.get_all](const ServerConfig& config) {
    return absl::StrJoin(get_all(config), ", ");
  };
  return setting;
}

absl::Status CheckDirectory(const std::string& text) {
  if (std::filesystem::is_directory(text)) return absl::OkStatus();
  return absl::NotFoundError("is no directory that can be read");
}

absl::Status CheckNotEmpty(const std::string& text) {
  if (!text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("must not be empty");
}

Setting WithUsual(Setting setting, std::string_view usual) {
  setting.usual = usual;
  return setting;
}

std::vector<Setting> MakeSettings() {
  using C = ServerConfig;
  return {
      Address("listen", "address of the gRPC service; port 0 takes a free one", &C::listen, false),
      Address("http", "address of metrics and health over HTTP, or off", &C::http, true),
      Timeout(
          "max-connection-age", kListening,
          "close connections after this time, so that clients find new replicas",
          [](auto& c) -> auto& { return c.max_connection_age; }),

      Repeated(
          "model-repository", kDevices, "DIR",
          "directory with a folder for each model; may be given several times, earlier ones win a "
          "name; the bundled models come last",
          ':', CheckDirectory, [](auto& c) -> auto& { return c.model_repositories; }),
      Text(
          "default-model", kDevices, "NAME", "model of requests that name none",
          [](auto& c) -> auto& { return c.default_model; }),
      Repeated(
          "device", kDevices, "NAME",
          "device to compute on: auto, cpu, cuda or opencl (the first of them), cuda:N, opencl:P.D "
          "or reference; may be given several times (in the environment: separated by commas), the "
          "preferred one first",
          ',', CheckNotEmpty, [](auto& c) -> auto& { return c.devices; }),
      Integer(
          "threads", kDevices, "N",
          "threads that compute on the cpu; 0: as many as the machine or container offers", 0,
          kMaxThreads, [](auto& c) -> auto& { return c.threads; }),
      Text(
          "cpu-isa", kDevices, "NAME", "force an instruction set of the cpu; empty: the best",
          [](auto& c) -> auto& { return c.cpu_isa; }),
      Text(
          "cache-folder", kDevices, "DIR",
          "folder for compiled OpenCL programs, of this user alone; empty: compile at every start",
          [](auto& c) -> auto& { return c.cache_folder; }),
      Choice<Precision>(
          "precision", kDevices, "exact|fast",
          "arithmetic of requests that name none; exact for models that have no other",
          {Precision::kExact, Precision::kFast}, PrecisionName,
          [](auto& c) -> auto& { return c.precision; }),
      Choice<TuneMode>(
          "tune", kDevices, "off|load|fast|full",
          "kernels and tiles as shipped, as --tune-file says, or measured when a model is first "
          "loaded, for 0.05 s or for 0.5 s each kind of layer, and noted there; replicas give the "
          "same bytes with the same table",
          {TuneMode::kOff, TuneMode::kLoad, TuneMode::kFast, TuneMode::kFull}, TuneModeName,
          [](auto& c) -> auto& { return c.tune; }),
      Text(
          "tune-file", kDevices, "FILE", "table of measured kernels and tiles, for --tune",
          [](auto& c) -> auto& { return c.tune_file; }),

      Pixels(
          "max-source-pixels", "pixels of a source image",
          [](auto& c) -> auto& { return c.limits.max_source_pixels; }),
      Pixels(
          "max-result-pixels", "pixels of a result",
          [](auto& c) -> auto& { return c.limits.max_result_pixels; }),
      Bytes(
          "max-source-bytes", "bytes of an encoded source",
          [](auto& c) -> auto& { return c.limits.max_source_bytes; }),
      Bytes(
          "max-metadata-bytes", "bytes of a source before its pixels, and what they inflate to",
          [](auto& c) -> auto& { return c.limits.max_metadata_bytes; }, kMaxMetadataBytes),
      Integer(
          "max-jpeg-scans", kLimits, "N", "scans of a progressive JPEG", 1, kMaxJpegScans,
          [](auto& c) -> auto& { return c.limits.max_jpeg_scans; }),
      Bytes(
          "max-unary-bytes", "bytes of an encoded source in the unary call",
          [](auto& c) -> auto& { return c.limits.max_unary_bytes; }, kMaxUnaryBytes),
      Pixels(
          "max-tile-pixels", "pixels of one raw tile",
          [](auto& c) -> auto& { return c.limits.max_tile_pixels; }, kMaxTilePixels),
      Integer(
          "max-concurrent-requests", kLimits, "N", "calls at a time; more are told to come back", 1,
          kMaxRequests, [](auto& c) -> auto& { return c.limits.max_concurrent_requests; }),
      Pixels(
          "max-queue-pixels", "source pixels admitted and not yet computed",
          [](auto& c) -> auto& { return c.limits.max_queue_pixels; }),
      WithUsual(Bytes(
                    "memory-budget", "memory that all requests may reserve",
                    [](auto& c) -> auto& { return c.memory_budget_bytes; }),
                "half of what the machine or container has"),
      Bytes(
          "output-ring-bytes", "encoded result that one call holds for a slow reader",
          [](auto& c) -> auto& { return c.output_ring_bytes; }),

      Timeout(
          "stall-timeout", kTimeouts,
          "end a call whose client neither sends nor takes anything for this time",
          [](auto& c) -> auto& { return c.stall_timeout; }),
      Timeout(
          "drain-timeout", kTimeouts, "after SIGTERM, time for admitted calls to finish",
          [](auto& c) -> auto& { return c.drain_timeout; }),

      Choice<LogFormat>(
          "log-format", kLogging, "text|json", "log lines human-readable or programs",
          {LogFormat::kText, LogFormat::kJson}, LogFormatName,
          [](auto& c) -> auto& { return c.log_format; }),
      Choice<LogLevel>(
          "log-level", kLogging, "LEVEL", "least level to log: debug, info, warning or error",
          {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}, LogLevelName,
          [](auto& c) -> auto& { return c.log_level; }),

      Text(
          "tls-cert", kTls, "FILE", "PEM certificate chain; turns TLS on, with --tls-key",
          [](auto& c) -> auto& { return c.tls.cert; }),
      Text(
          "tls-key", kTls, "FILE", "PEM private key of --tls-cert",
          [](auto& c) -> auto& { return c.tls.key; }),
      Text(
          "tls-client-ca", kTls, "FILE", "PEM certificates that clients must present one of",
          [](auto& c) -> auto& { return c.tls.client_ca; }),
  };
}

}  // namespace

std::string_view TuneModeName(TuneMode mode) {
  switch (mode) {
    case TuneMode::kOff:
      return "off";
    case TuneMode::kLoad:
      return "load";
    case TuneMode::kFast:
      return "fast";
    case TuneMode::kFull:
      return "full";
  }
  return "off";
}

const std::vector<Setting>& Settings() {
  static const std::vector<Setting>* const settings = new std::vector<Setting>(MakeSettings());
  return *settings;
}

std::string EnvironmentName(std::string_view setting) {
  return absl::StrCat("UPSCALED_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(ToAbsl(setting), {{"-", "_"}})));
}

}  // namespace upscaled::server
