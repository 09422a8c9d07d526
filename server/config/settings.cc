#include "server/config/settings.h"

#include <limits>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/config/places.h"
#include "server/config/values.h"

namespace upscaled::server {
namespace {

constexpr int kMaxThreads = 4096;
constexpr int kMaxRequests = 100'000;
// Both travel in one message, results included, and messages end at 2 GiB.
constexpr int64_t kMaxUnaryBytes = int64_t{256} << 20;
constexpr int64_t kMaxTilePixels = 64'000'000;
constexpr int64_t kMaxMetadataBytes = int64_t{1} << 30;
constexpr int kMaxJpegScans = 10'000;
constexpr int64_t kNoMaximum = std::numeric_limits<int64_t>::max();

// A validator's answer: "" when it takes `text`.
std::string Answer(const std::string& text, const absl::Status& status) {
  return status.ok() ? "" : absl::StrCat("\"", text, "\" ", status.message());
}

absl::Status CheckDirectory(const std::string& text) {
  if (IsDirectory(text)) return absl::OkStatus();
  return absl::NotFoundError("is no directory that can be read");
}

absl::Status CheckNotEmpty(const std::string& text) {
  if (!text.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("must not be empty");
}

// Adds options to an app; their validators put what they read into the fields given here.
class SettingList {
 public:
  explicit SettingList(CLI::App& app) : app_(app) {}

  // The group of what is added from now on.
  void Group(const std::string& name) { app_.option_defaults()->group(name); }

  // One value: `read` gives it from a text, `print` a text that reads back.
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

  // Several values, each of which `check` looks at.
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

  template <typename T>  // a string or a path
  void Text(const char* name, const char* type, const char* help, T& field) {
    Add(
        name, type, help, field, [](const std::string& text) { return absl::StatusOr<T>(text); },
        [](const T& value) { return std::string(value); });
  }

  void Address(const char* name, const char* help, std::string& field, bool may_be_off) {
    const auto read = [may_be_off](const std::string& text) -> absl::StatusOr<std::string> {
      if (may_be_off && text == "off") return "";
      RETURN_IF_ERROR(CheckAddress(text));
      return text;
    };
    Add(name, "HOST:PORT", help, field, read,
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

  void Pixels(const char* name, const char* help, int64_t& field, int64_t max = kNoMaximum) {
    Quantity(name, "PIXELS", help, field, max, ParsePixels, FormatPixels);
  }

  void Timeout(const char* name, const char* help, absl::Duration& field) {
    Add(name, "TIME", help, field, ParseTimeout, absl::FormatDuration);
  }

  // One of the names that `name_of` gives to `values`.
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
  list.Address("listen", "address of the gRPC service; port 0 takes a free one", config.listen,
               /*may_be_off=*/false);
  list.Address("http", "address of metrics and health over HTTP, or off", config.http,
               /*may_be_off=*/true);
  list.Timeout("max-connection-age",
               "close connections after this time, so that clients find new replicas",
               config.max_connection_age);
}

void AddModelsAndDevices(SettingList& list, ServerConfig& config) {
  list.Group("Models and devices");
  list.Repeated("model-repository", "DIR",
                "directory with a folder for each model; may be given several times, earlier ones "
                "win a name; the bundled models come last",
                config.model_repositories, ':', CheckDirectory);
  list.Text("default-model", "NAME", "model of requests that name none", config.default_model);
  list.Repeated("device", "NAME",
                "device to compute on: auto, cpu, cuda or opencl (the first of them), cuda:N, "
                "opencl:P.D or reference; may be given several times (in the environment: "
                "separated by commas), the preferred one first",
                config.devices, ',', CheckNotEmpty);
  list.Integer("threads",
               "threads that compute on the cpu; 0: as many as the machine or container offers",
               config.threads, 0, kMaxThreads);
  list.Text("cpu-isa", "NAME", "force an instruction set of the cpu; empty: the best",
            config.cpu_isa);
  list.Text("cache-folder", "DIR",
            "folder for compiled OpenCL programs, of this user alone; empty: compile at every "
            "start",
            config.cache_folder);
  list.Choice("precision", "exact|fast",
              "arithmetic of requests that name none; exact for models that have no other",
              config.precision, PrecisionName, {Precision::kExact, Precision::kFast});
  list.Choice("tune", "off|load|fast|full",
              "kernels and tiles as shipped, as --tune-file says, or measured when a model is "
              "first loaded, for 0.05 s or for 0.5 s each kind of layer, and noted there; "
              "replicas give the same bytes with the same table",
              config.tune, TuneModeName,
              {TuneMode::kOff, TuneMode::kLoad, TuneMode::kFast, TuneMode::kFull});
  list.Text("tune-file", "FILE", "table of measured kernels and tiles, for --tune",
            config.tune_file);
}

void AddLimits(SettingList& list, ServerConfig& config) {
  Limits& limits = config.limits;
  list.Group("Limits");
  list.Pixels("max-source-pixels", "pixels of a source image", limits.max_source_pixels);
  list.Pixels("max-result-pixels", "pixels of a result", limits.max_result_pixels);
  list.Bytes("max-source-bytes", "bytes of an encoded source", limits.max_source_bytes);
  list.Bytes("max-metadata-bytes", "bytes of a source before its pixels, and what they inflate to",
             limits.max_metadata_bytes, kMaxMetadataBytes);
  list.Integer("max-jpeg-scans", "scans of a progressive JPEG", limits.max_jpeg_scans, 1,
               kMaxJpegScans);
  list.Bytes("max-unary-bytes", "bytes of an encoded source in the unary call",
             limits.max_unary_bytes, kMaxUnaryBytes);
  list.Pixels("max-tile-pixels", "pixels of one raw tile", limits.max_tile_pixels, kMaxTilePixels);
  list.Integer("max-concurrent-requests", "calls at a time; more are told to come back",
               limits.max_concurrent_requests, 1, kMaxRequests);
  list.Pixels("max-queue-pixels", "source pixels admitted and not yet computed",
              limits.max_queue_pixels);
  list.Bytes("memory-budget", "memory that all requests may reserve", config.memory_budget_bytes)
      ->default_str("half of what the machine or container has");
  list.Bytes("output-ring-bytes", "encoded result that one call holds for a slow reader",
             config.output_ring_bytes);
}

void AddTimeouts(SettingList& list, ServerConfig& config) {
  list.Group("Timeouts");
  list.Timeout("stall-timeout",
               "end a call whose client neither sends nor takes anything for this time",
               config.stall_timeout);
  list.Timeout("drain-timeout", "after SIGTERM, time for admitted calls to finish",
               config.drain_timeout);
}

void AddLogging(SettingList& list, ServerConfig& config) {
  list.Group("Logging");
  list.Choice("log-format", "text|json", "log lines for people or programs", config.log_format,
              LogFormatName, {LogFormat::kText, LogFormat::kJson});
  list.Choice("log-level", "LEVEL", "least level to log: debug, info, warning or error",
              config.log_level, LogLevelName,
              {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError});
}

void AddTls(SettingList& list, TlsConfig& tls) {
  list.Group("TLS");
  list.Text("tls-cert", "FILE", "PEM certificate chain; turns TLS on, with --tls-key", tls.cert);
  list.Text("tls-key", "FILE", "PEM private key of --tls-cert", tls.key);
  list.Text("tls-client-ca", "FILE", "PEM certificates that clients must present one of",
            tls.client_ca);
}

}  // namespace

std::string_view TuneModeName(TuneMode mode) {
  constexpr std::string_view kNames[] = {"off", "load", "fast", "full"};
  return kNames[static_cast<int>(mode)];
}

std::vector<Setting> AddSettings(CLI::App& app, ServerConfig& config) {
  SettingList list(app);
  AddListening(list, config);
  AddModelsAndDevices(list, config);
  AddLimits(list, config);
  AddTimeouts(list, config);
  AddLogging(list, config);
  AddTls(list, config.tls);
  return list.Take();
}

std::string EnvironmentName(std::string_view setting) {
  return absl::StrCat("UPSCALED_",
                      absl::AsciiStrToUpper(absl::StrReplaceAll(ToAbsl(setting), {{"-", "_"}})));
}

}  // namespace upscaled::server
