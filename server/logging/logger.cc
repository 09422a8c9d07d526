#include "server/logging/logger.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "spdlog/logger.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace upscaled::server {
namespace {

constexpr size_t kMaxStringBytes = 512;

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string Bounded(std::string_view text) {
  if (text.size() <= kMaxStringBytes) return std::string(text);
  return std::string(text.substr(0, kMaxStringBytes)) + "...";
}

nlohmann::json ToJson(const std::variant<std::string_view, int64_t, double>& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return Bounded(*text);
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  return std::get<double>(value);
}

// ASCII on one line; broken UTF-8 becomes U+FFFD.
template <typename Json>
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

bool IsPrintable(std::string_view text, std::string_view but_for) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return c >= ' ' && c <= '~' && but_for.find(c) == std::string_view::npos;
  });
}

std::string Time() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
}

std::string TextLine(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  std::string text = Bounded(message);
  if (!IsPrintable(text, "")) text = Dump(nlohmann::json(text));
  std::string line = absl::StrCat(Time(), " ", std::string(LogLevelName(level)), " ", text);
  for (const LogField& field : fields) {
    const nlohmann::json value = ToJson(field.value);
    const auto* bare = value.get_ptr<const std::string*>();
    const bool quoted = bare != nullptr && (bare->empty() || !IsPrintable(*bare, " \"\\="));
    absl::StrAppend(&line, " ", std::string(field.name), "=",
                    bare != nullptr && !quoted ? *bare : Dump(value));
  }
  return line;
}

std::string JsonLine(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  nlohmann::ordered_json line;
  line["time"] = Time();
  line["level"] = LogLevelName(level);
  line["message"] = Bounded(message);
  for (const LogField& field : fields) line[std::string(field.name)] = ToJson(field.value);
  return Dump(line);
}

// Whether the server, and not the caller, is to blame.
bool IsServerFailure(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kResourceExhausted;
}

double Milliseconds(absl::Duration duration) {
  return std::round(absl::ToDoubleMicroseconds(duration)) / 1000;
}

}  // namespace

std::string_view LogFormatName(LogFormat format) {
  return format == LogFormat::kText ? "text" : "json";
}

std::string_view LogLevelName(LogLevel level) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

Logger::Logger(LogFormat format, LogLevel min_level)
    : Logger(format, min_level, std::make_shared<spdlog::sinks::stderr_sink_mt>()) {}

Logger::Logger(LogFormat format, LogLevel min_level, std::shared_ptr<spdlog::sinks::sink> sink)
    : format_(format), logger_(std::make_unique<spdlog::logger>("upscaled", std::move(sink))) {
  logger_->set_pattern("%v");
  logger_->set_level(SpdlogLevel(min_level));
}

Logger::~Logger() = default;

void Logger::Log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  const spdlog::level::level_enum spdlog_level = SpdlogLevel(level);
  if (!logger_->should_log(spdlog_level)) return;
  const std::string line = format_ == LogFormat::kText ? TextLine(level, message, fields)
                                                       : JsonLine(level, message, fields);
  logger_->log(spdlog_level, spdlog::string_view_t(line));
}

void Logger::LogRequest(const RequestRecord& record) {
  const std::string code = absl::StatusCodeToString(record.code);
  const auto size_text = [](Size size) { return absl::StrCat(size.width, "x", size.height); };
  const std::string source = size_text(record.source), result = size_text(record.result);

  std::vector<LogField> fields = {{"method", record.method},
                                  {"request_id", record.request_id},
                                  {"peer", record.peer},
                                  {"code", code}};
  const auto add_text = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) fields.push_back({name, value});
  };
  const auto add_count = [&](std::string_view name, int64_t value) {
    if (value != 0) fields.push_back({name, value});
  };
  const auto add_ms = [&](std::string_view name, absl::Duration value) {
    if (value != absl::ZeroDuration()) fields.push_back({name, Milliseconds(value)});
  };
  add_text("reason", record.reason);
  add_text("error", record.message);
  add_text("model", record.model);
  add_text("device", record.device);
  if (record.source != Size()) fields.push_back({"source", source});
  if (record.result != Size()) fields.push_back({"result", result});
  add_count("source_pixels", record.source_pixels);
  add_count("result_pixels", record.result_pixels);
  add_count("tiles", record.tiles);
  add_count("received_bytes", record.received_bytes);
  add_count("sent_bytes", record.sent_bytes);
  add_ms("queue_ms", record.queue);
  add_ms("decode_ms", record.decode);
  add_ms("infer_ms", record.infer);
  add_ms("encode_ms", record.encode);
  fields.push_back({"total_ms", Milliseconds(record.total)});
  Log(IsServerFailure(record.code) ? LogLevel::kWarning : LogLevel::kInfo, "request", fields);
}

}  // namespace upscaled::server
