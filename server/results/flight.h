// One computation, shared by equal requests, and its result during its writing: each waiter takes
// header, bytes and end at its own pace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "server/base/payer.h"
#include "server/base/payers.h"
#include "server/base/request_record.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// A computation shared by equal requests. No waiter owns it: it is cancelled when the last one
// leaves. The longest waiting one pays for the work. When that one leaves, the next one pays from
// then on. The work has the place of the best of `payers`. The computation runs at most kAheadBytes
// ahead of the fastest waiter, and keeps kKeptBytes for the others. A waiter that needs earlier
// bytes is left behind, unless a file has them. Thread safe. Held by shared_ptr.
class Flight : public std::enable_shared_from_this<Flight> {
 public:
  static constexpr size_t kBlockBytes = size_t{128} << 10;
  static constexpr size_t kAheadBytes = size_t{1} << 20;
  static constexpr size_t kKeptBytes = size_t{4} << 20;

  using Block = std::shared_ptr<const std::string>;
  // Bytes of the result from `offset` on, as many as that. Called with no lock held.
  using ReadBack = std::function<absl::StatusOr<std::string>(int64_t offset, size_t bytes)>;

  // The source of the computation: its holder may drop a copy of its own.
  using Source = std::shared_ptr<const std::vector<uint8_t>>;

  explicit Flight(Source source);

  const Source& source() const { return source_; }
  // The payers of all waiters.
  const std::shared_ptr<Payers>& payers() const { return payers_; }

  // --- For the computation ---

  // Cancelled when no waiter is left.
  Cancellation& cancellation() { return cancellation_; }
  // All appended bytes are readable there from now on.
  void SetReadBack(ReadBack read_back) ABSL_LOCKS_EXCLUDED(mutex_);
  // Once, before the first byte. `forecast_end` is when the computation is expected to end;
  // infinitely early: not known.
  void Announce(upscale::v1::UpscaleImageHeader header,
                absl::Time forecast_end = absl::InfinitePast()) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReportProgress(int64_t done, int64_t total) ABSL_LOCKS_EXCLUDED(mutex_);
  // The next kBlockBytes of the result; the last block may have fewer. Waits until there is room;
  // the cancellation's reason if it is cancelled.
  absl::Status Append(std::string block) ABSL_LOCKS_EXCLUDED(mutex_);
  // The cost of the computation so far. Once it is cancelled no more of it begins.
  std::shared_ptr<CostMeter> meter() { return {shared_from_this(), &meter_}; }
  // Last: the summary or the error, and the computation's record with the valid cost.
  void Finish(absl::StatusOr<upscale::v1::UpscaleSummary> summary,
              std::shared_ptr<const RequestRecord> record = nullptr) ABSL_LOCKS_EXCLUDED(mutex_);
  // Destroys `held` when the last waiter has left: source and kept bytes last until then. Before
  // Finish.
  void HoldForWaiters(std::shared_ptr<const void> held) ABSL_LOCKS_EXCLUDED(mutex_);

  // --- For those who wait ---

  struct Progress {
    int64_t done = 0;
    int64_t total = 0;
    friend bool operator==(const Progress&, const Progress&) = default;
  };
  // One or several of these; each is told once.
  struct News {
    std::optional<upscale::v1::UpscaleImageHeader> header;
    absl::Time forecast_end = absl::InfinitePast();  // with the header
    std::optional<Progress> progress;
    Block block;             // null: none
    std::string_view bytes;  // the part of `block` that the waiter lacks
    bool left_behind = false;
    std::optional<absl::StatusOr<upscale::v1::UpscaleSummary>> end;  // after all bytes
  };

  // A waiter's part.
  struct Bill {
    int64_t cost = 0;                             // in multiply-adds
    std::shared_ptr<const RequestRecord> record;  // to the one who pays at the end; else null
  };

  // A waiter, until it leaves or is destroyed. Used by one thread.
  class Waiter {
   public:
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    // Waits for news. A second call means all bytes so far have been delivered. The reason when the
    // waiter's cancellation comes first.
    absl::StatusOr<News> Await();

    // Waits no more; the last one to leave stops the computation first.
    Bill Leave();

   private:
    friend class Flight;
    Waiter(std::shared_ptr<Flight> flight, Cancellation& cancellation, int64_t position);

    const std::shared_ptr<Flight> flight_;
    Cancellation& cancellation_;
    int64_t number_ = 0;  // in the order in which they came; 0: not there yet
    int64_t position_;    // in bytes; all before it are told
    bool knows_header_ = false;
    Progress progress_;
    Cancellation::Registration wake_;  // last: its callback uses the others
  };

  // For a caller with the first `position` bytes at its client. Null when it can not be joined any
  // more: it has ended or was cancelled, or bytes are gone. `cancellation` must outlive the waiter.
  std::unique_ptr<Waiter> Join(Cancellation& cancellation, const Payer& payer = {},
                               int64_t position = 0) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_);
  Bill Leave(const Waiter& waiter) ABSL_LOCKS_EXCLUDED(mutex_);
  // For all unpaid work.
  Bill TakeBill() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The present end of the computation's writable bytes.
  int64_t Allowed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t KeptFrom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the waiter the news; false: nothing.
  bool Tell(Waiter& waiter, News& news) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads bytes no longer in memory. It must not be called again after it has failed.
  void ReadBehind(int64_t position, int64_t bytes, const ReadBack& read_back, News& news)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const Source source_;
  const std::shared_ptr<Payers> payers_ = std::make_shared<Payers>();
  Cancellation cancellation_;
  CostMeter meter_ = 0;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::optional<upscale::v1::UpscaleImageHeader> header_ ABSL_GUARDED_BY(mutex_);
  absl::Time forecast_end_ ABSL_GUARDED_BY(mutex_);
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  std::deque<Block> blocks_ ABSL_GUARDED_BY(mutex_);  // the last ones
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;       // blocks before those
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::StatusOr<upscale::v1::UpscaleSummary>> end_ ABSL_GUARDED_BY(mutex_);
  bool left_ ABSL_GUARDED_BY(mutex_) = false;  // by all
  ReadBack read_back_ ABSL_GUARDED_BY(mutex_);
  int64_t waiters_ ABSL_GUARDED_BY(mutex_) = 0;                   // that have come
  std::map<int64_t, int64_t> positions_ ABSL_GUARDED_BY(mutex_);  // delivered bytes, by number
  std::shared_ptr<const void> held_ ABSL_GUARDED_BY(mutex_);      // null: nothing
  int64_t paid_ ABSL_GUARDED_BY(mutex_) = 0;                      // of what the meter says
  std::shared_ptr<const RequestRecord> record_ ABSL_GUARDED_BY(mutex_);  // null: none, or taken
  Cancellation::Registration wake_;  // last: its callback uses the others
};

}  // namespace upscaled::server
