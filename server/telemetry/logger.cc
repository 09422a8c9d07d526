#include "server/telemetry/logger.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/thread_name.h"
#include "nlohmann/json.hpp"
#include "server/telemetry/fd_sink.h"
#include "server/telemetry/line_limit.h"
#include "server/telemetry/log_text.h"
#include "spdlog/async_logger.h"
#include "spdlog/details/thread_pool.h"
#include "spdlog/logger.h"

namespace upscaled::server {
namespace {

// Lines with the same message, and of requests with the same failure: 0.2 MB a minute at most.
constexpr LineRate kLineRate = {.burst = 100, .per_second = 10};
// Lines of successful requests.
constexpr LineRate kServedRate = {.burst = 1000, .per_second = 100};

constexpr absl::Duration kTellInterval = absl::Seconds(5);
constexpr absl::Duration kLastFlush = absl::Seconds(1);

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

nlohmann::json ToJson(const std::variant<std::string_view, int64_t, double>& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) return Bounded(*text);
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  return std::get<double>(value);
}

bool IsPrintable(std::string_view text, std::string_view but_for) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return c >= ' ' && c <= '~' && but_for.find(c) == std::string_view::npos;
  });
}

std::string TextLine(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  std::string text = Bounded(message);
  if (!IsPrintable(text, "")) text = Dump(nlohmann::json(text));
  std::string line =
      absl::StrCat(TimeText(absl::Now()), " ", std::string(LogLevelName(level)), " ", text);
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
  line["time"] = TimeText(absl::Now());
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

void AddCounts(const RequestRecord& record, std::vector<LogField>& fields) {
  const auto add_count = [&](std::string_view name, int64_t value) {
    if (value != 0) fields.push_back({name, value});
  };
  add_count("source_pixels", record.source_pixels);
  add_count("result_pixels", record.result_pixels);
  add_count("tiles", record.tiles);
  add_count("spared_pixels", record.spared_pixels);
  add_count("unchanged_pixels", record.unchanged_pixels);
  add_count("received_bytes", record.received_bytes);
  add_count("sent_bytes", record.sent_bytes);
}

void AddTimes(const RequestRecord& record, std::vector<LogField>& fields) {
  const auto add_ms = [&](std::string_view name, absl::Duration value) {
    if (value != absl::ZeroDuration()) fields.push_back({name, Milliseconds(value)});
  };
  add_ms("queue_ms", record.queue);
  add_ms("decode_ms", record.decode);
  add_ms("infer_ms", record.infer);
  add_ms("encode_ms", record.encode);
  add_ms("forecast_ms", record.forecast);
  fields.push_back({"total_ms", Milliseconds(record.total)});
}

}  // namespace

std::string_view LogFormatName(LogFormat format) {
  return format == LogFormat::kText ? "text" : "json";
}

std::string_view LogLevelName(LogLevel level) {
  constexpr std::string_view kNames[] = {"debug", "info", "warning", "error"};
  return kNames[static_cast<size_t>(level)];
}

Logger::Logger(LogFormat format, LogLevel min_level, int fd)
    : format_(format),
      limit_(std::make_unique<LineLimit>(Clock::Real())),
      fd_sink_(std::make_shared<FdSink>(fd)),
      queue_(std::make_shared<spdlog::details::thread_pool>(kQueueLines, /*threads_n=*/1,
                                                            [] { NameThread("log"); })),
      logger_(std::make_shared<spdlog::async_logger>(
          "upscaled", fd_sink_, queue_, spdlog::async_overflow_policy::overrun_oldest)) {
  logger_->set_pattern("%v");
  logger_->set_level(SpdlogLevel(min_level));
}

Logger::Logger(LogFormat format, LogLevel min_level, std::shared_ptr<spdlog::sinks::sink> sink)
    : format_(format), logger_(std::make_shared<spdlog::logger>("upscaled", std::move(sink))) {
  logger_->set_pattern("%v");
  logger_->set_level(SpdlogLevel(min_level));
}

Logger::~Logger() {
  TellDropsNow();
  if (!Flush(kLastFlush)) fd_sink_->Abandon();
}

bool Logger::Wanted(LogLevel level) const { return logger_->should_log(SpdlogLevel(level)); }

void Logger::Log(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!Wanted(level)) return;
  if (limit_ == nullptr || limit_->Admit(message, kLineRate)) Write(level, message, fields);
  TellDrops();
}

void Logger::Write(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  const std::string line = format_ == LogFormat::kText ? TextLine(level, message, fields)
                                                       : JsonLine(level, message, fields);
  ++queued_;
  logger_->log(SpdlogLevel(level), spdlog::string_view_t(line));
}

void Logger::TellDrops() {
  if (limit_ == nullptr) return;
  {
    const absl::Time now = Clock::Real().Now();
    absl::MutexLock lock(&tell_mutex_);
    if (now < next_tell_) return;
    next_tell_ = now + kTellInterval;
  }
  TellDropsNow();
}

void Logger::TellDropsNow() {
  if (limit_ == nullptr) return;
  for (const LineLimit::Omission& omission : limit_->TakeOmissions()) {
    const LogField fields[] = {{"kind", omission.kind}, {"lines", omission.lines}};
    Write(LogLevel::kWarning, "left out lines of a kind that comes too often", fields);
  }
  int64_t new_ones = drops().lost;
  {
    absl::MutexLock lock(&tell_mutex_);
    new_ones -= std::exchange(told_lost_, std::max(told_lost_, new_ones));
  }
  if (new_ones <= 0) return;
  const LogField fields[] = {{"lines", new_ones}};
  Write(LogLevel::kWarning, "lost lines that were not read in time", fields);
}

LogDrops Logger::drops() const {
  if (limit_ == nullptr) return {};
  return {.limited = limit_->total(),
          .lost = static_cast<int64_t>(queue_->overrun_counter()) + fd_sink_->lost()};
}

bool Logger::Flush(absl::Duration timeout) {
  if (fd_sink_ == nullptr) return true;
  const int64_t target = queued_;
  const auto written = [&](int64_t handled) {
    return handled + static_cast<int64_t>(queue_->overrun_counter()) >= target;
  };
  return fd_sink_->AwaitHandled(written, timeout);
}

bool Logger::AdmitRequest(const RequestRecord& record) {
  if (limit_ == nullptr) return true;
  const bool served = record.code == absl::StatusCode::kOk;
  const std::string kind = absl::StrCat("request code=", absl::StatusCodeToString(record.code),
                                        " reason=", record.reason);
  const bool admitted = limit_->Admit(kind, served ? kServedRate : kLineRate);
  TellDrops();
  return admitted;
}

void Logger::LogRequest(const RequestRecord& record) {
  const LogLevel level = IsServerFailure(record.code) ? LogLevel::kWarning : LogLevel::kInfo;
  if (!Wanted(level) || !AdmitRequest(record)) return;
  const std::string code = absl::StatusCodeToString(record.code);
  const auto size_text = [](Size size) { return absl::StrCat(size.width, "x", size.height); };
  const std::string trace_id = TraceIdText(record.trace);
  const std::string source = size_text(record.source), result = size_text(record.result);

  std::vector<LogField> fields = {{"method", record.method},
                                  {"request_id", record.request_id},
                                  {"peer", record.peer},
                                  {"code", code}};
  const auto add_text = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) fields.push_back({name, value});
  };
  add_text("transport", record.transport);
  add_text("trace_id", trace_id);
  add_text("key", record.key);
  add_text("tenant", record.tenant);
  add_text("reason", record.reason);
  add_text("error", record.message);
  add_text("fetched_from", record.fetched_from);
  add_text("model", record.model);
  add_text("device", record.device);
  if (record.source != Size()) fields.push_back({"source", source});
  if (record.result != Size()) fields.push_back({"result", result});
  AddCounts(record, fields);
  AddTimes(record, fields);
  Write(level, "request", fields);
}

}  // namespace upscaled::server
