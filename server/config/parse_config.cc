#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include <unistd.h>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/config/config.h"
#include "server/config/places.h"
#include "server/config/settings.h"
#include "server/config/version.h"
#include "yaml-cpp/yaml.h"

namespace upscaled::server {
namespace {

constexpr std::string_view kConfigFlag = "config";
constexpr std::string_view kEnvironmentPrefix = "UPSCALED_";

// Variables with our prefix that are not ours: of the tests, and those that Kubernetes sets in
// every pod beside a service called "upscaled".
bool IsForeign(const std::string& variable) {
  return absl::StartsWith(variable, "UPSCALED_TEST_") ||
         absl::StartsWith(variable, "UPSCALED_SERVICE_") || variable == "UPSCALED_PORT" ||
         absl::StartsWith(variable, "UPSCALED_PORT_");
}

// Reading one throws, of all things.
bool IsDirectory(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::string Usual(const Setting& setting, const ServerConfig& defaults) {
  return setting.usual.empty() ? setting.get(defaults) : std::string(setting.usual);
}

// Levenshtein's distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

std::string NearestSetting(std::string_view name) {
  std::string_view nearest = kConfigFlag;
  for (const Setting& setting : Settings()) {
    if (EditDistance(name, setting.name) < EditDistance(name, nearest)) nearest = setting.name;
  }
  return std::string(nearest);
}

// `source` is how the user wrote it: "--threads", "UPSCALED_THREADS", "threads in FILE".
absl::Status Apply(const Setting& setting, const std::vector<std::string>& values,
                   const std::string& source, ServerConfig& config) {
  if (values.empty()) return absl::OkStatus();  // as good as not set
  if (setting.repeatable()) {
    setting.clear(config);
  } else if (values.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": is given more than once"));
  }
  for (const std::string& value : values) {
    const absl::Status status = setting.set(config, value);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat(source, ": \"", value, "\" ", status.message()));
    }
  }
  return absl::OkStatus();
}

// --- The three sources ---

absl::StatusOr<std::vector<std::string>> FileValues(const YAML::Node& node,
                                                    const std::string& source) {
  if (node.IsScalar()) return std::vector<std::string>{node.Scalar()};
  std::vector<std::string> values;
  for (const YAML::Node& item : node) {
    if (!node.IsSequence() || !item.IsScalar()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": must be a value or a list of them"));
    }
    values.push_back(item.Scalar());
  }
  return values;
}

absl::Status ApplyFile(const std::string& path, ServerConfig& config) {
  if (IsDirectory(path)) {
    return absl::InvalidArgumentError(absl::StrCat("--config: \"", path, "\" is a directory"));
  }
  YAML::Node root;
  try {  // yaml-cpp reports by exceptions; JSON is YAML to it
    root = YAML::LoadFile(path);
  } catch (const YAML::BadFile&) {
    return absl::NotFoundError(absl::StrCat("--config: cannot read \"", path, "\""));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": must be a map of settings, such as \"threads: 4\""));
  }
  for (const auto& entry : root) {
    if (!entry.first.IsScalar()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a key is not a name"));
    }
    const std::string key = absl::StrReplaceAll(ToAbsl(entry.first.Scalar()), {{"_", "-"}});
    const std::string source = absl::StrCat(key, " in ", path);
    const auto setting = std::ranges::find(Settings(), key, &Setting::name);
    if (setting == Settings().end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(source, ": no such setting; did you mean ", NearestSetting(key), "?"));
    }
    if (entry.second.IsNull()) continue;  // a name without a value leaves the default
    ASSIGN_OR_RETURN(const std::vector<std::string> values, FileValues(entry.second, source));
    RETURN_IF_ERROR(Apply(*setting, values, source, config));
  }
  return absl::OkStatus();
}

absl::Status ApplyEnvironment(const Environment& environment, ServerConfig& config) {
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, ToAbsl(kEnvironmentPrefix)) || IsForeign(name)) continue;
    if (value.empty()) continue;                         // as good as not set
    if (name == EnvironmentName(kConfigFlag)) continue;  // read before
    const auto setting = std::ranges::find(
        Settings(), name, [](const Setting& s) { return EnvironmentName(s.name); });
    if (setting == Settings().end()) {
      const std::string as_flag = absl::AsciiStrToLower(
          absl::StrReplaceAll(name.substr(kEnvironmentPrefix.size()), {{"_", "-"}}));
      return absl::InvalidArgumentError(absl::StrCat(
          name, ": no such setting; did you mean ", EnvironmentName(NearestSetting(as_flag)), "?"));
    }
    std::vector<std::string> values = {value};
    if (setting->repeatable()) {
      values = absl::StrSplit(value, setting->separator, absl::SkipEmpty());
    }
    RETURN_IF_ERROR(Apply(*setting, values, name, config));
  }
  return absl::OkStatus();
}

// The command line as CLI11 reads it.
struct Flags {
  CLI::App app{"Upscales images with neural networks, over gRPC.", "upscaled"};
  std::vector<std::vector<std::string>> values{Settings().size()};
  std::string config;
  bool print_config = false, help_markdown = false;

  Flags() {
    const ServerConfig defaults;
    for (size_t i = 0; i < Settings().size(); ++i) {
      const Setting& setting = Settings()[i];
      const std::string usual = Usual(setting, defaults);
      app.add_option(absl::StrCat("--", ToAbsl(setting.name)), values[i],
                     absl::StrCat(ToAbsl(setting.help),
                                  usual.empty() || usual == "0" ? "" : " [" + usual + "]"))
          ->group(std::string(setting.group))
          ->type_name(std::string(setting.value))
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
    app.add_option("--config", config, "YAML or JSON file of these settings by their names")
        ->type_name("FILE");
    app.add_flag("--print-config", print_config, "print the settings in force and exit");
    app.add_flag("--help-markdown", help_markdown)->group("");
    app.set_version_flag("--version", std::string("upscaled ") + kVersion,
                         "print the version and exit");
    app.allow_extras();
    app.footer(
        "Every setting can also be given as UPSCALED_NAME in the environment "
        "(UPSCALED_MAX_QUEUE_PIXELS)"
        "\nor in the file of --config. A flag wins over the environment, that over the file.");
  }

  // The text of --help or --version, "" when neither was asked for.
  absl::StatusOr<std::string> Parse(int argc, const char* const* argv) {
    try {  // CLI11 reports by exceptions
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      return app.help();
    } catch (const CLI::CallForVersion& version) {
      return absl::StrCat(version.what(), "\n");
    } catch (const CLI::ParseError& error) {
      return absl::InvalidArgumentError(error.what());
    }
    for (const std::string& extra : app.remaining()) {
      if (!absl::StartsWith(extra, "-")) {
        return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", extra, "\""));
      }
      const std::string name(absl::StripPrefix(
          absl::StripPrefix(absl::string_view(extra).substr(0, extra.find('=')), "-"), "-"));
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag ", extra, "; did you mean --", NearestSetting(name), "?"));
    }
    return "";
  }

  absl::Status ApplyTo(ServerConfig& out) const {
    for (size_t i = 0; i < values.size(); ++i) {
      const Setting& setting = Settings()[i];
      RETURN_IF_ERROR(Apply(setting, values[i], absl::StrCat("--", ToAbsl(setting.name)), out));
    }
    return absl::OkStatus();
  }
};

// --- What no single setting can check or default ---

absl::Status CheckTls(const TlsConfig& tls) {
  if (tls.cert.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key must be given together");
  }
  if (!tls.client_ca.empty() && tls.cert.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca needs --tls-cert and --tls-key");
  }
  for (const std::filesystem::path& file : {tls.cert, tls.key, tls.client_ca}) {
    if (!file.empty() && (IsDirectory(file) || access(file.c_str(), R_OK) != 0)) {
      return absl::NotFoundError(absl::StrCat("TLS: cannot read \"", file.string(), "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTune(const ServerConfig& config) {
  if ((config.tune == TuneMode::kOff) == config.tune_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--tune=load, --tune=fast or --tune=full and --tune-file need each other");
}

absl::Status Complete(ServerConfig& config) {
  RETURN_IF_ERROR(CheckTls(config.tls));
  RETURN_IF_ERROR(CheckTune(config));
  if (config.memory_budget_bytes == 0) config.memory_budget_bytes = UsableMemoryBytes() / 2;
  if (const auto bundled = BundledModelsDirectory();
      bundled.has_value() && !std::ranges::count(config.model_repositories, *bundled)) {
    config.model_repositories.push_back(*bundled);
  }
  if (config.model_repositories.empty()) {
    return absl::NotFoundError(
        "no models: the bundled ones were not found beside the program; give --model-repository "
        "DIR");
  }
  return absl::OkStatus();
}

// As a file for --config.
std::string PrintConfig(const ServerConfig& config) {
  YAML::Emitter yaml;
  yaml << YAML::BeginMap;
  for (const Setting& setting : Settings()) {
    yaml << YAML::Key << std::string(setting.name) << YAML::Value;
    if (setting.repeatable()) {
      yaml << setting.get_all(config);
    } else {
      yaml << setting.get(config);
    }
  }
  yaml << YAML::EndMap;
  return absl::StrCat(yaml.c_str(), "\n");
}

}  // namespace

Environment ReadEnvironment(const char* const* envp) {
  Environment environment;
  for (; *envp != nullptr; ++envp) {
    const std::string_view entry = *envp;
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return environment;
}

absl::StatusOr<ParsedConfig> ParseConfig(int argc, const char* const* argv,
                                         const Environment& environment) {
  ParsedConfig parsed;
  Flags flags;
  ASSIGN_OR_RETURN(parsed.printout, flags.Parse(argc, argv));
  if (flags.help_markdown) parsed.printout = SettingsMarkdown();
  if (!parsed.printout.empty()) return parsed;

  std::string file = flags.config;
  if (const auto variable = environment.find(EnvironmentName(kConfigFlag));
      file.empty() && variable != environment.end()) {
    file = variable->second;
  }
  if (!file.empty()) RETURN_IF_ERROR(ApplyFile(file, parsed.config));
  RETURN_IF_ERROR(ApplyEnvironment(environment, parsed.config));
  RETURN_IF_ERROR(flags.ApplyTo(parsed.config));
  RETURN_IF_ERROR(Complete(parsed.config));
  if (flags.print_config) parsed.printout = PrintConfig(parsed.config);
  return parsed;
}

std::string SettingsMarkdown() {
  const ServerConfig defaults;
  std::string text = "| flag | default | what it does |\n| --- | --- | --- |\n";
  for (const Setting& setting : Settings()) {
    const std::string usual = Usual(setting, defaults);
    absl::StrAppend(&text, "| `--", ToAbsl(setting.name), " ",
                    absl::StrReplaceAll(ToAbsl(setting.value), {{"|", "\\|"}}), "` | ",
                    usual.empty() ? "" : absl::StrCat("`", usual, "`"), " | ", ToAbsl(setting.help),
                    " |\n");
  }
  return text;
}

}  // namespace upscaled::server
