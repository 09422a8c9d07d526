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
  std::string_view value;  // what it takes, for people: "HOST:PORT"
  std::string_view help;
  // Sets it from one text; a repeatable setting is called for each, after Clear.
  std::function<absl::Status(ServerConfig&, const std::string&)> set;
  std::function<std::string(const ServerConfig&)> get;
  bool repeatable = false;
  std::string_view usual = {};  // its default, for people, where `get` cannot tell
};

const std::vector<Setting>& Settings();

// "max-queue-pixels" -> "UPSCALED_MAX_QUEUE_PIXELS".
std::string EnvironmentName(std::string_view setting);

}  // namespace upscaled::server
