// The one list of the server's settings: flags, variables, file keys, help and README come from it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/config/config.h"

namespace upscaled::server {

struct Setting {
  std::string_view name;   // the flag is --NAME, the variable UPSCALED_NAME, the file's key NAME
  std::string_view group;  // of the help
  std::string_view value;  // what it takes, human-readable: "HOST:PORT"
  std::string_view help;
  // Sets it from one text; a repeatable setting is called for each, after `clear`.
  std::function<absl::Status(ServerConfig&, const std::string&)> set;
  std::function<std::string(const ServerConfig&)> get;
  std::string_view usual = {};  // its default, human-readable, where `get` cannot tell

  // Of repeatable settings:
  char separator = 0;  // of several values in a variable; 0: not repeatable
  std::function<void(ServerConfig&)> clear = nullptr;
  std::function<std::vector<std::string>(const ServerConfig&)> get_all = nullptr;

  bool repeatable() const { return separator != 0; }
};

const std::vector<Setting>& Settings();

// "max-queue-pixels" -> "UPSCALED_MAX_QUEUE_PIXELS".
std::string EnvironmentName(std::string_view setting);

}  // namespace upscaled::server
