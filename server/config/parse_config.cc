#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include <unistd.h>

#include "CLI/CLI.hpp"
#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/nearest_names.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/base/endpoint.h"
#include "server/config/config.h"
#include "server/config/places.h"
#include "server/config/settings.h"
#include "server/config/version.h"
#include "yaml-cpp/yaml.h"

namespace upscaled::server {
namespace {

constexpr std::string_view kConfigFlag = "config";
constexpr std::string_view kEnvironmentPrefix = "UPSCALED_";

// Variables with our prefix but from others: variables of the tests, and the ones set by Kubernetes
// in every pod next to a service called "upscaled".
bool IsForeign(const std::string& variable) {
  return absl::StartsWith(variable, "UPSCALED_TEST_") ||
         absl::StartsWith(variable, "UPSCALED_SERVICE_") || variable == "UPSCALED_PORT" ||
         absl::StartsWith(variable, "UPSCALED_PORT_");
}

// Words of other services' settings.
constexpr OthersWord kOthersWords[] = {
    {"address", "http"},
    {"address", "listen"},
    {"bind", "http"},
    {"bind", "listen"},
    {"concurrency", "max-concurrent-requests"},
    {"cpu", "threads"},
    {"debug", "log-level"},
    {"fp16", "precision"},
    {"gpu", "device"},
    {"grpc", "listen"},
    {"half", "precision"},
    {"host", "http"},
    {"host", "listen"},
    {"metric", "admin"},
    {"password", "auth-keys"},
    {"port", "http"},
    {"port", "listen"},
    {"quiet", "log-level"},
    {"secret", "auth-keys"},
    {"ssl", "tls-cert"},
    {"ssl", "tls-key"},
    {"token", "auth-keys"},
    {"verbose", "log-level"},
    {"worker", "threads"},
};

// "--threads N   threads that compute ... [4]".
class HelpFormatter : public CLI::Formatter {
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : absl::StrCat(" ", option->get_type_name());
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    return absl::StrCat(option->get_description(),
                        value.empty() || value == "0" ? "" : absl::StrCat(" [", value, "]"));
  }
};

// The text of a scalar, the texts of a list of them.
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

// A map of settings, or null. A file holds one document.
absl::StatusOr<YAML::Node> LoadFile(const std::string& path) {
  if (IsDirectory(path)) {
    return absl::InvalidArgumentError(absl::StrCat("--config: \"", path, "\" is a directory"));
  }
  std::vector<YAML::Node> documents;
  try {  // yaml-cpp reports by exceptions; JSON is YAML to it
    documents = YAML::LoadAllFromFile(path);
  } catch (const YAML::BadFile&) {
    return absl::NotFoundError(absl::StrCat("--config: cannot read \"", path, "\""));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.what()));
  }
  if (documents.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has ", documents.size(), " documents, must have one"));
  }
  const YAML::Node root = documents.empty() ? YAML::Node() : documents.front();
  if (root.IsNull() || root.IsMap()) return root;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": must be a map of settings, such as \"threads: 4\""));
}

// A config and its options. CLI11's own reading of variables and files is not used: a file would
// win over a variable, and an error would name the flag instead of its source.
struct Parser {
  ServerConfig config;
  std::string file;  // --config
  bool print_config = false, help_markdown = false;
  CLI::App app{"Serves image upscaling with neural networks, over HTTP and gRPC.", "upscaled"};
  std::vector<Setting> settings;

  Parser() {
    app.add_option("--config", file, "YAML or JSON file of these settings by their names")
        ->type_name("FILE");
    app.add_flag("--print-config", print_config, "print the settings in force and exit");
    app.set_version_flag("--version", std::string("upscaled ") + kVersion,
                         "print the version and exit");
    app.allow_extras();
    app.formatter(std::make_shared<HelpFormatter>());
    app.footer(
        "Every setting can also be given as UPSCALED_NAME in the environment "
        "(UPSCALED_MAX_QUEUE_PIXELS)"
        "\nor in the file of --config. A flag wins over the environment, that over the file.");
    settings = AddSettings(app, config);
    app.add_flag("--help-markdown", help_markdown)->group("");
  }

  // "; did you mean --threads or --device?", each name as `written` has it.
  std::string Advice(std::string_view name,
                     absl::FunctionRef<std::string(std::string_view)> written) const {
    std::vector<std::string> names = {std::string(kConfigFlag)};
    for (const Setting& setting : settings) names.emplace_back(setting.name);
    std::vector<std::string> nearest = NearestNames(name, names, kOthersWords);
    if (nearest.empty()) return "; upscaled --help lists them";
    for (std::string& each : nearest) each = written(each);
    return absl::StrCat("; did you mean ", absl::StrJoin(nearest, " or "), "?");
  }
};

// Gives `values` to a setting. `source` is how the user wrote it: "UPSCALED_THREADS".
absl::Status Apply(const Setting& setting, std::vector<std::string> values,
                   const std::string& source) {
  if (values.empty()) return absl::OkStatus();  // as good as not set
  setting.option->clear();
  setting.option->add_result(std::move(values));
  try {
    setting.option->run_callback();
  } catch (const CLI::ParseError& error) {
    const std::string flag = setting.option->get_name();
    return absl::InvalidArgumentError(absl::StrCat(source, absl::StripPrefix(error.what(), flag)));
  }
  return absl::OkStatus();
}

// --- The three sources ---

absl::Status RefuseExtras(const Parser& parser) {
  for (const std::string& extra : parser.app.remaining()) {
    if (!absl::StartsWith(extra, "-")) {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", extra, "\""));
    }
    const std::string name(absl::StripPrefix(
        absl::StripPrefix(absl::string_view(extra).substr(0, extra.find('=')), "-"), "-"));
    return absl::InvalidArgumentError(
        absl::StrCat("unknown flag ", extra, parser.Advice(name, [](std::string_view known) {
          return absl::StrCat("--", ToAbsl(known));
        })));
  }
  return absl::OkStatus();
}

// The text of --help, --version or --help-markdown, "" when none was asked for.
absl::StatusOr<std::string> ReadFlags(Parser& parser, int argc, const char* const* argv) {
  try {  // CLI11 reports by exceptions
    parser.app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return absl::StrCat(version.what(), "\n");
  } catch (const CLI::ParseError& error) {
    if (parser.app.get_help_ptr()->count() > 0) return parser.app.help();
    return absl::InvalidArgumentError(error.what());
  }
  RETURN_IF_ERROR(RefuseExtras(parser));
  return parser.help_markdown ? SettingsMarkdown() : "";
}

absl::Status ReadFile(Parser& parser, const std::string& path) {
  ASSIGN_OR_RETURN(const YAML::Node root, LoadFile(path));
  std::set<std::string> seen;
  for (const auto& entry : root) {
    if (!entry.first.IsScalar()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": a key is not a name"));
    }
    const std::string key = absl::StrReplaceAll(ToAbsl(entry.first.Scalar()), {{"_", "-"}});
    const std::string source = absl::StrCat(key, " in ", path);
    const auto setting = std::ranges::find(parser.settings, key, &Setting::name);
    if (setting == parser.settings.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          source, ": no such setting",
          parser.Advice(key, [](std::string_view known) { return std::string(known); })));
    }
    if (!seen.insert(key).second) {
      return absl::InvalidArgumentError(absl::StrCat(source, ": is given more than once"));
    }
    if (entry.second.IsNull()) continue;  // a name without a value leaves the default
    ASSIGN_OR_RETURN(std::vector<std::string> values, FileValues(entry.second, source));
    RETURN_IF_ERROR(Apply(*setting, std::move(values), source));
  }
  return absl::OkStatus();
}

absl::Status ReadEnvironment(Parser& parser, const Environment& environment) {
  for (const auto& [name, value] : environment) {
    if (!absl::StartsWith(name, ToAbsl(kEnvironmentPrefix)) || IsForeign(name)) continue;
    if (value.empty()) continue;                         // as good as not set
    if (name == EnvironmentName(kConfigFlag)) continue;  // read before
    const auto setting = std::ranges::find(
        parser.settings, name, [](const Setting& s) { return EnvironmentName(s.name); });
    if (setting == parser.settings.end()) {
      const std::string as_flag = absl::AsciiStrToLower(
          absl::StrReplaceAll(name.substr(kEnvironmentPrefix.size()), {{"_", "-"}}));
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": no such setting", parser.Advice(as_flag, EnvironmentName)));
    }
    std::vector<std::string> values = {value};
    if (setting->separator != 0) {
      values = absl::StrSplit(value, setting->separator, absl::SkipEmpty());
    }
    RETURN_IF_ERROR(Apply(*setting, std::move(values), name));
  }
  return absl::OkStatus();
}

// --- Checks and defaults that take more than one setting ---

absl::Status CheckReadable(const std::filesystem::path& file, absl::string_view purpose) {
  if (file.empty() || (!IsDirectory(file) && access(file.c_str(), R_OK) == 0)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(purpose, ": cannot read \"", file.string(), "\""));
}

// No operator serves the whole network by mistake.
absl::Status CheckIdentity(const ServerConfig& config) {
  RETURN_IF_ERROR(CheckReadable(config.auth_keys, "--auth-keys"));
  RETURN_IF_ERROR(CheckReadable(config.url_keys, "--url-keys"));
  if (!config.auth_keys.empty()) {
    if (!config.allow_anonymous) return absl::OkStatus();
    return absl::InvalidArgumentError("--auth-keys and --allow-anonymous exclude each other");
  }
  if (config.allow_anonymous) return absl::OkStatus();
  for (const auto& [flag, address] :
       {std::pair("--listen", config.listen), {"--http", config.http}, {"--admin", config.admin}}) {
    if (address.empty() || IsLocal(*ParseEndpoint(address))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " ", address,
        " is reachable from other machines: give --auth-keys FILE, for which "
        "\"upscaled keys new\" makes keys, or --allow-anonymous to serve every caller"));
  }
  return absl::OkStatus();
}

absl::Status CheckTls(const TlsConfig& tls) {
  if (tls.cert.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key must be given together");
  }
  if (!tls.client_ca.empty() && tls.cert.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca needs --tls-cert and --tls-key");
  }
  for (const std::filesystem::path& file : {tls.cert, tls.key, tls.client_ca}) {
    RETURN_IF_ERROR(CheckReadable(file, "TLS"));
  }
  return absl::OkStatus();
}

absl::Status CheckTune(const ServerConfig& config) {
  if (config.tune == TuneMode::kOff || !config.tune_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--tune=load, --tune=fast and --tune=full need --tune-file");
}

absl::Status CompleteJobs(ServerConfig& config) {
  if (config.job_queue.empty() != config.job_store.empty()) {
    return absl::InvalidArgumentError("--job-queue and --job-store need each other");
  }
  if (config.job_store.empty()) return absl::OkStatus();
  std::error_code error;  // workers have other folders to start from
  config.job_store = std::filesystem::absolute(config.job_store, error).lexically_normal();
  return error ? absl::ErrnoToStatus(error.value(), "--job-store") : absl::OkStatus();
}

absl::Status Complete(ServerConfig& config) {
  RETURN_IF_ERROR(CheckTls(config.tls));
  RETURN_IF_ERROR(CheckIdentity(config));
  RETURN_IF_ERROR(CheckTune(config));
  RETURN_IF_ERROR(CompleteJobs(config));
  RETURN_IF_ERROR(CheckReadable(config.fetch_ca, "--fetch-ca"));
  if (config.memory_budget_bytes == 0) config.memory_budget_bytes = UsableMemoryBytes() / 2;
  if (config.weight_memory_bytes == 0) config.weight_memory_bytes = UsableMemoryBytes() / 4;
  if (const auto bundled = BundledModelsDirectory();
      bundled.has_value() && !std::ranges::count(config.model_repositories, *bundled)) {
    config.model_repositories.push_back(*bundled);
    config.bundled_models_last = true;
  }
  if (config.model_repositories.empty()) {
    return absl::NotFoundError(
        "no models: the bundled ones are not next to the program. If its build folder was moved, "
        "install it with cmake --install FOLDER --prefix DIR; otherwise give --model-repository "
        "DIR");
  }
  return absl::OkStatus();
}

// As a file for --config.
std::string PrintConfig(const Parser& parser) {
  YAML::Emitter yaml;
  yaml << YAML::BeginMap;
  for (const Setting& setting : parser.settings) {
    yaml << YAML::Key << std::string(setting.name) << YAML::Value;
    if (setting.separator != 0) {
      yaml << setting.values();
    } else {
      yaml << setting.values().front();
    }
  }
  yaml << YAML::EndMap;
  return absl::StrCat(yaml.c_str(), "\n");
}

}  // namespace

Environment ReadEnvironment(const char* const* envp) {
  Environment environment;
  for (; *envp != nullptr; ++envp) {
    environment.insert(absl::StrSplit(*envp, absl::MaxSplits('=', 1)));
  }
  return environment;
}

absl::StatusOr<ParsedConfig> ParseConfig(int argc, const char* const* argv,
                                         const Environment& environment) {
  ParsedConfig parsed;
  Parser parser;
  ASSIGN_OR_RETURN(parsed.printout, ReadFlags(parser, argc, argv));
  if (!parsed.printout.empty()) return parsed;

  std::string file = parser.file;
  if (const auto variable = environment.find(EnvironmentName(kConfigFlag));
      file.empty() && variable != environment.end()) {
    file = variable->second;
  }
  if (!file.empty()) RETURN_IF_ERROR(ReadFile(parser, file));
  RETURN_IF_ERROR(ReadEnvironment(parser, environment));
  RETURN_IF_ERROR(ReadFlags(parser, argc, argv).status());  // again: they win
  RETURN_IF_ERROR(Complete(parser.config));
  if (parser.print_config) parsed.printout = PrintConfig(parser);
  parsed.config = std::move(parser.config);
  return parsed;
}

std::string SettingsMarkdown() {
  std::string text = "| flag | default | what it does |\n| --- | --- | --- |\n";
  const Parser parser;
  for (const auto& [name, option, values, separator] : parser.settings) {
    const std::string value = option->get_default_str();
    absl::StrAppend(&text, "| `--", ToAbsl(name), " ",
                    absl::StrReplaceAll(option->get_type_name(), {{"|", "\\|"}}), "` | ",
                    value.empty() ? "" : absl::StrCat("`", value, "`"), " | ",
                    option->get_description(), " |\n");
  }
  return text;
}

}  // namespace upscaled::server
