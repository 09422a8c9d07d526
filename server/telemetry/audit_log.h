// Writes a JSON line per finished or refused call to its own file: principal, request, outcome.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/unique_fd.h"
#include "server/base/request_record.h"
#include "server/base/timer.h"
#include "server/telemetry/line_limit.h"

namespace upscaled::server {

// Thread safe. A task of the timer appends lines to the file as soon as they come: no call waits
// for the disk, and none fails by it. Refused calls of callers without a key cost their senders
// nothing, and get kRefusedPerSecond lines for each reason. Their others are counted, in a line per
// reason every kOmissionInterval.
class AuditLog {
 public:
  // The report of one failed write: how many lines are lost by it, and why.
  using OnLost = std::function<void(int64_t lines, std::string_view reason)>;

  // Creates a missing file: the owner may write, the group may read. `on_lost` is called on a
  // helper of the timer. The timer and `clock` must outlive the log. INVALID_ARGUMENT names the
  // file and says why it cannot be used.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Timer& timer, std::filesystem::path file,
                                                        OnLost on_lost,
                                                        const Clock& clock = Clock::Real());
  // Writes the waiting lines.
  ~AuditLog();

  // `now` is the end of the call, by the system's clock. While kMaxWaitingBytes wait to be written,
  // the line is lost.
  void Add(const RequestRecord& record, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // Reopens the file by its name, after another process renamed the old one. No line is lost. After
  // an error it goes on with the old one.
  absl::Status Reopen() ABSL_LOCKS_EXCLUDED(mutex_);

  int64_t lost() const { return lost_; }

  static constexpr size_t kMaxWaitingBytes = size_t{4} << 20;
  static constexpr double kRefusedPerSecond = 10, kRefusedAtOnce = 1000;
  static constexpr absl::Duration kOmissionInterval = absl::Seconds(10);

 private:
  using File = std::shared_ptr<const UniqueFd>;

  AuditLog(Timer& timer, std::filesystem::path path, File file, OnLost on_lost, const Clock& clock);
  static absl::StatusOr<File> OpenFile(const std::filesystem::path& path);
  void WriteWaiting(bool is_last = false) ABSL_LOCKS_EXCLUDED(mutex_);
  // The lines of omissions, if it is time to tell them.
  std::string TakeOmissions(bool is_last);

  const std::filesystem::path path_;
  const OnLost on_lost_;
  const Clock& clock_;
  LineLimit refusals_;
  std::atomic<int64_t> lost_ = 0;
  absl::Mutex mutex_;
  File file_ ABSL_GUARDED_BY(mutex_);
  std::string waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t overrun_ ABSL_GUARDED_BY(mutex_) = 0;  // lines that found no room since the last write
  absl::Time omissions_told_ = absl::InfinitePast();  // of whoever writes, as the next
  File torn_;           // the file that ends within a line, if one does; of whoever writes
  Timer::Task writer_;  // last: it uses what is above
};

// The line of a call, with its end.
std::string AuditLine(const RequestRecord& record, absl::Time now);

}  // namespace upscaled::server
