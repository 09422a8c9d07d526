// Log lines, human-readable (text) or JSON (one object per line), through spdlog.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/base/request_record.h"

namespace spdlog {
class logger;
namespace details {
class thread_pool;
}
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

class FdSink;
class LineLimit;

// Numbers of lines missing in the log.
struct LogDrops {
  int64_t limited = 0;  // left out, as there were too many of their kind
  int64_t lost = 0;     // were in the queue when it overflowed or could not be written
};

// Thread safe. An entry is always one line of valid UTF-8 (or ASCII): control characters and broken
// UTF-8 are escaped, strings cut after 512 bytes.
class Logger {
 public:
  // Writes to `fd` (standard error, borrowed) on a thread of its own: callers never wait for its
  // reader. At most kQueueLines lines wait for this thread, the newest. Lines with the same
  // message, and requests with the same outcome, are limited to the rates in the .cc. Other lines
  // say how many are missing. Throws std::system_error when there is no thread.
  Logger(LogFormat format, LogLevel min_level, int fd = 2);
  // For tests and other targets: writes at once, and all.
  Logger(LogFormat format, LogLevel min_level, std::shared_ptr<spdlog::sinks::sink> sink);
  // Gives the waiting lines a second to be written, and throws the rest away.
  ~Logger();

  void Log(LogLevel level, std::string_view message, std::span<const LogField> fields = {});
  void Debug(std::string_view message) { Log(LogLevel::kDebug, message); }
  void Info(std::string_view message) { Log(LogLevel::kInfo, message); }
  void Warning(std::string_view message) { Log(LogLevel::kWarning, message); }
  void Error(std::string_view message) { Log(LogLevel::kError, message); }

  // The one line of a finished call: info, or warning when it failed by the server's doing.
  void LogRequest(const RequestRecord& record);

  // Says what is missing since the last such line, at most every 5 s; every line does so, too. Call
  // it periodically, for times without lines.
  void TellDrops() ABSL_LOCKS_EXCLUDED(tell_mutex_);
  LogDrops drops() const;
  // Waits until the lines so far are written; false when `timeout` passes first.
  bool Flush(absl::Duration timeout);

  static constexpr size_t kQueueLines = 2048;

 private:
  bool Wanted(LogLevel level) const;
  // Counts the call; false when lines of its kind come too often.
  bool AdmitRequest(const RequestRecord& record);
  void Write(LogLevel level, std::string_view message, std::span<const LogField> fields);
  void TellDropsNow() ABSL_LOCKS_EXCLUDED(tell_mutex_);

  const LogFormat format_;
  std::unique_ptr<LineLimit> limit_;                     // null: all lines are written
  std::shared_ptr<FdSink> fd_sink_;                      // null: `logger_` writes at once
  std::shared_ptr<spdlog::details::thread_pool> queue_;  // likewise
  std::shared_ptr<spdlog::logger> logger_;
  std::atomic<int64_t> queued_ = 0;
  absl::Mutex tell_mutex_;
  absl::Time next_tell_ ABSL_GUARDED_BY(tell_mutex_) = absl::InfinitePast();
  int64_t told_lost_ ABSL_GUARDED_BY(tell_mutex_) = 0;
};

}  // namespace upscaled::server
