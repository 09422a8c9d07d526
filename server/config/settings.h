// The one list of the server's settings: flags, variables, file keys, help and docs come from it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/config/config.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace upscaled::server {

struct Setting {
  std::string_view name;  // the flag is --NAME, the variable UPSCALED_NAME, the file's key NAME
  CLI::Option* option;    // owned by the app; reads texts, refuses wrong ones, knows the default
  std::function<std::vector<std::string>()> values;  // in force; texts that read back
  char separator;  // between several values in a variable; 0: takes one value
};

// Adds the flags of all settings to `app`. They write to `config`. It outlives the app.
std::vector<Setting> AddSettings(CLI::App& app, ServerConfig& config);

// "max-queue-pixels" -> "UPSCALED_MAX_QUEUE_PIXELS".
std::string EnvironmentName(std::string_view setting);

}  // namespace upscaled::server
