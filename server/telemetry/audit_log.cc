#include "server/telemetry/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/telemetry/log_text.h"

namespace upscaled::server {
namespace {

// A refused call without a key, at no cost but its line.
bool IsFreeRefusal(const RequestRecord& record) {
  const bool is_refused = record.code == absl::StatusCode::kUnauthenticated ||
                          record.code == absl::StatusCode::kPermissionDenied ||
                          record.code == absl::StatusCode::kResourceExhausted;
  return is_refused && record.key.empty() && record.cost == 0;
}

std::string Reason(int error) { return std::generic_category().message(error); }

// The bytes of `text` taken by the file, and the error at their end, or 0.
std::pair<size_t, int> WriteAll(int fd, std::string_view text) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(fd, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return {written, errno};
    written += static_cast<size_t>(count);
  }
  return {written, 0};
}

}  // namespace

std::string AuditLine(const RequestRecord& record, absl::Time now) {
  nlohmann::ordered_json line = {{"time", TimeText(now)}};
  const auto add_text = [&](const char* name, std::string_view text) {
    if (!text.empty()) line[name] = Bounded(text);
  };
  const auto add_size = [&](const char* name, Size size) {
    if (size != Size()) line[name] = absl::StrCat(size.width, "x", size.height);
  };
  add_text("key", record.key);
  add_text("tenant", record.tenant);
  add_text("address", record.peer);
  add_text("transport", record.transport);
  add_text("method", record.method);
  add_text("request_id", record.request_id);
  add_text("trace_id", TraceIdText(record.trace));
  add_text("model", record.model);
  add_text("fetched_from", record.fetched_from);
  add_size("source", record.source);
  add_size("result", record.result);
  line["received_bytes"] = record.received_bytes;
  line["sent_bytes"] = record.sent_bytes;
  line["cost"] = record.cost;
  line["code"] = absl::StatusCodeToString(record.code);
  add_text("reason", record.reason);
  add_text("limit", record.limit);
  if (record.forecast != absl::ZeroDuration()) line["forecast_ms"] = Milliseconds(record.forecast);
  line["total_ms"] = Milliseconds(record.total);
  return Dump(line) + "\n";
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(Timer& timer, std::filesystem::path file,
                                                         OnLost on_lost, const Clock& clock) {
  ASSIGN_OR_RETURN(File opened, OpenFile(file));
  return std::unique_ptr<AuditLog>(
      new AuditLog(timer, std::move(file), std::move(opened), std::move(on_lost), clock));
}

AuditLog::AuditLog(Timer& timer, std::filesystem::path path, File file, OnLost on_lost,
                   const Clock& clock)
    : path_(std::move(path)),
      on_lost_(std::move(on_lost)),
      clock_(clock),
      refusals_(clock),
      file_(std::move(file)),
      writer_(timer, Timer::Length::kMayBlock, [this] { WriteWaiting(); }) {}

AuditLog::~AuditLog() {
  writer_.Stop();
  WriteWaiting(/*is_last=*/true);
}

// A pipe must have a reader. One that does not read costs lines, but no time.
absl::StatusOr<AuditLog::File> AuditLog::OpenFile(const std::filesystem::path& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                   S_IRUSR | S_IWUSR | S_IRGRP));
  if (fd.valid()) return std::make_shared<const UniqueFd>(std::move(fd));
  return absl::InvalidArgumentError(
      absl::StrCat("cannot open the audit log ", path.string(), ": ", Reason(errno)));
}

void AuditLog::Add(const RequestRecord& record, absl::Time now) {
  if (IsFreeRefusal(record) &&
      !refusals_.Admit(record.reason, {.burst = kRefusedAtOnce, .per_second = kRefusedPerSecond})) {
    return writer_.Request(kOmissionInterval);
  }
  const std::string line = AuditLine(record, now);
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() + line.size() > kMaxWaitingBytes) {
      ++overrun_;
      ++lost_;
      return;
    }
    waiting_ += line;
  }
  writer_.Request();
}

absl::Status AuditLog::Reopen() {
  ASSIGN_OR_RETURN(File file, OpenFile(path_));
  absl::MutexLock lock(&mutex_);
  file_ = std::move(file);
  return absl::OkStatus();
}

std::string AuditLog::TakeOmissions(bool is_last) {
  const absl::Time now = clock_.Now();
  if (const absl::Duration since = now - omissions_told_; !is_last && since < kOmissionInterval) {
    if (refusals_.has_omissions()) writer_.Request(kOmissionInterval - since);
    return "";
  }
  omissions_told_ = now;
  std::string lines;
  for (const LineLimit::Omission& omission : refusals_.TakeOmissions()) {
    const nlohmann::ordered_json line = {{"time", TimeText(absl::Now())},
                                         {"reason", omission.kind},
                                         {"omitted_refusals", omission.lines}};
    lines += Dump(line) + "\n";
  }
  return lines;
}

void AuditLog::WriteWaiting(bool is_last) {
  std::string lines;
  File file;
  int64_t overrun = 0;
  {
    absl::MutexLock lock(&mutex_);
    lines.swap(waiting_);
    file = file_;
    overrun = std::exchange(overrun_, 0);
  }
  if (overrun > 0) on_lost_(overrun, "too many lines wait to be written");
  lines += TakeOmissions(is_last);
  if (lines.empty()) return;
  const size_t prefix = torn_ == file ? 1 : 0;
  lines.insert(0, prefix, '\n');
  const auto [written, error] = WriteAll(file->get(), lines);
  if (written > 0) torn_ = lines[written - 1] == '\n' ? nullptr : file;
  if (error == 0) return;
  const auto unwritten = lines.begin() + static_cast<ptrdiff_t>(std::max(written, prefix));
  const int64_t lost = std::count(unwritten, lines.end(), '\n');
  lost_ += lost;
  on_lost_(lost, Reason(error));
}

}  // namespace upscaled::server
