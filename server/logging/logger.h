// Log lines for people (text) or for programs (JSON, one object a line), through spdlog.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "server/base/request_record.h"

namespace spdlog {
class logger;
namespace sinks {
class sink;
}
}  // namespace spdlog

namespace upscaled::server {

enum class LogFormat : uint8_t { kText, kJson };
enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

std::string_view LogFormatName(LogFormat format);  // "text", "json"
std::string_view LogLevelName(LogLevel level);     // "debug", "info", "warning", "error"

struct LogField {
  std::string_view name;
  std::variant<std::string_view, int64_t, double> value;
};

// Thread safe. Whatever a message or a value holds, an entry is one line of valid UTF-8 (or ASCII):
// control characters and broken UTF-8 are escaped, strings cut after 512 bytes.
class Logger {
 public:
  // Writes to stderr.
  Logger(LogFormat format, LogLevel min_level);
  // For tests and other targets.
  Logger(LogFormat format, LogLevel min_level, std::shared_ptr<spdlog::sinks::sink> sink);
  ~Logger();

  void Log(LogLevel level, std::string_view message, std::span<const LogField> fields = {});
  void Debug(std::string_view message) { Log(LogLevel::kDebug, message); }
  void Info(std::string_view message) { Log(LogLevel::kInfo, message); }
  void Warning(std::string_view message) { Log(LogLevel::kWarning, message); }
  void Error(std::string_view message) { Log(LogLevel::kError, message); }

  // The one line of a finished call: info, or warning when it failed by the server's doing.
  void LogRequest(const RequestRecord& record);

 private:
  const LogFormat format_;
  std::unique_ptr<spdlog::logger> logger_;
};

}  // namespace upscaled::server
