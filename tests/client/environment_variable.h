// A variable of this process's environment, set by a test.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>
#include <utility>

namespace upscaled::client {

// As it was before when destroyed. For tests without threads with an eye on it.
class EnvironmentVariable {
 public:
  EnvironmentVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    if (const char* const before = getenv(name_.c_str())) before_ = before;
    setenv(name_.c_str(), value.c_str(), /*overwrite=*/1);
  }
  ~EnvironmentVariable() {
    if (before_.has_value()) {
      setenv(name_.c_str(), before_->c_str(), /*overwrite=*/1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  const std::string name_;
  std::optional<std::string> before_;
};

}  // namespace upscaled::client
