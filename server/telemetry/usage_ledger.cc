#include "server/telemetry/usage_ledger.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace upscaled::server {
namespace {

bool IsRefusal(absl::StatusCode code) {
  return code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable ||
         code == absl::StatusCode::kUnauthenticated || code == absl::StatusCode::kPermissionDenied;
}

Usage UsageOf(const RequestRecord& record) {
  return {.calls = 1,
          .refusals = IsRefusal(record.code) ? 1 : 0,
          .cost = record.cost,
          .received_bytes = record.received_bytes,
          .sent_bytes = record.sent_bytes,
          .source_pixels = record.source_pixels,
          .result_pixels = record.result_pixels};
}

}  // namespace

absl::StatusOr<std::unique_ptr<UsageLedger>> UsageLedger::Open(
    Timer& timer, const std::filesystem::path& file,
    std::function<void(const absl::Status&)> on_failure) {
  ASSIGN_OR_RETURN(std::unique_ptr<UsageDb> db, UsageDb::Open(file));
  return std::unique_ptr<UsageLedger>(new UsageLedger(timer, std::move(db), std::move(on_failure)));
}

UsageLedger::UsageLedger(Timer& timer, std::unique_ptr<UsageDb> db,
                         std::function<void(const absl::Status&)> on_failure)
    : db_(std::move(db)),
      on_failure_(std::move(on_failure)),
      writer_(
          timer, Timer::Length::kMayBlock, [this] { WriteOrTell(); }, kWriteInterval) {}

UsageLedger::~UsageLedger() {
  writer_.Stop();
  WriteOrTell();
}

void UsageLedger::Add(const RequestRecord& record, absl::Time now) {
  UsageKey key{absl::ToCivilDay(now, absl::UTCTimeZone()), record.tenant};
  absl::MutexLock lock(&mutex_);
  auto place = waiting_.find(key);
  if (place == waiting_.end()) {
    if (waiting_.size() >= kMaxWaiting) {
      ++lost_;
      return;
    }
    place = waiting_.emplace(std::move(key), Usage()).first;
  }
  place->second += UsageOf(record);
}

absl::StatusOr<std::vector<UsageRow>> UsageLedger::Read(const UsageQuery& query) {
  RETURN_IF_ERROR(Write());
  return db_->Read(query);
}

absl::Status UsageLedger::Write() {
  absl::MutexLock writing(&write_mutex_);
  std::map<UsageKey, Usage> usage;
  {
    absl::MutexLock lock(&mutex_);
    usage.swap(waiting_);
  }
  if (usage.empty()) return absl::OkStatus();
  absl::Status status = db_->Add(usage);
  if (status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  for (const auto& [key, used] : usage) waiting_[key] += used;
  return status;
}

void UsageLedger::WriteOrTell() {
  if (const absl::Status status = Write(); !status.ok()) on_failure_(status);
  int64_t lost = 0;
  {
    absl::MutexLock lock(&mutex_);
    lost = std::exchange(lost_, 0);
  }
  if (lost == 0) return;
  on_failure_(
      absl::ResourceExhaustedError(absl::StrCat("the usage of ", lost, " calls is lost: more than ",
                                                kMaxWaiting, " tenants wait to be written")));
}

}  // namespace upscaled::server
