#include "server/batching/tile_scheduler.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <new>

#include "absl/strings/str_cat.h"
#include "engine/base/cpu_info.h"
#include "server/admission/error.h"

namespace upscaled::server {

// Tiles of one Submit. Whoever finishes the last of them first ends the registration, so that the
// cancellation is not touched after the last TileDone.
struct TileScheduler::Submission {
  std::shared_ptr<Account> account;
  std::shared_ptr<const Executable> executable;
  std::vector<TileTask> tiles;
  Cancellation* cancellation;
  TileDone done;
  size_t unfinished;  // guarded by the scheduler's mutex
  Cancellation::Registration registration;

  absl::Status cancel_status() const {
    return cancellation == nullptr ? absl::OkStatus() : cancellation->status();
  }
};

struct TileScheduler::QueuedTile {
  std::shared_ptr<Submission> submission;
  size_t index;
  absl::Time submitted;

  const TileTask& task() const { return submission->tiles[index]; }
  int64_t pixels() const { return std::max<int64_t>(task().tile.Area(), 1); }
};

// One request; all but its id guarded by the scheduler's mutex.
struct TileScheduler::Account {
  explicit Account(uint64_t id) : id(id) {}

  const uint64_t id;
  // The service, in pixels, at which its next tile is due: the account with the least goes first.
  int64_t virtual_start = 0;
  std::deque<QueuedTile> queue;
  RequestUsage usage;

  Due due() const { return {virtual_start, id}; }
};

struct TileScheduler::Batch {
  std::vector<QueuedTile> tiles;    // of one executable
  std::vector<QueuedTile> dropped;  // cancelled ones met on the way
  int64_t pixels = 0;

  const Executable* executable() const { return tiles.front().submission->executable.get(); }
};

namespace {

constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);

// Scratch memory that cannot be had fails the tiles, not the server.
absl::Status RunStream(Stream& stream, const Executable& executable,
                       std::span<const TileTask> tiles) {
  try {
    return stream.Run(executable, tiles);
  } catch (const std::bad_alloc&) {
    return MakeOverloaded(absl::StrCat("out of memory while running ", tiles.size(), " tile(s)"),
                          kMemoryRetryDelay);
  }
}

}  // namespace

TileScheduler::Request::~Request() {
  if (account_ == nullptr) return;
  absl::MutexLock lock(&owner_.mutex_);
  owner_.open_.erase(account_->id);
}

uint64_t TileScheduler::Request::id() const { return account_->id; }

RequestUsage TileScheduler::Request::usage() const {
  absl::MutexLock lock(&owner_.mutex_);
  return account_->usage;
}

TileScheduler::TileScheduler(Backend& backend, const Clock& clock,
                             const TileSchedulerOptions& options, TileObserver* observer)
    : clock_(clock), options_(options), observer_(observer) {
  const int count = std::max(backend.StreamCount(), 1);
  for (int i = 0; i < count; ++i) streams_.push_back(backend.CreateStream());
  for (int i = 0; i < count; ++i) {
    workers_.emplace_back([this, i] {
      BindPoolThread(i, concurrency());
      RunWorker(*streams_[i]);
    });
  }
}

TileScheduler::~TileScheduler() { Stop(absl::UnavailableError("the tile scheduler was stopped")); }

TileScheduler::Request TileScheduler::OpenRequest() {
  absl::MutexLock lock(&mutex_);
  auto account = std::make_shared<Account>(++last_request_);
  open_[account->id] = account;
  return Request(*this, std::move(account));
}

void TileScheduler::Submit(uint64_t request, std::shared_ptr<const Executable> executable,
                           std::vector<TileTask> tiles, Cancellation* cancellation, TileDone done) {
  if (tiles.empty()) return;
  auto submission = std::make_shared<Submission>();
  submission->executable = std::move(executable);
  submission->tiles = std::move(tiles);
  submission->cancellation = cancellation;
  submission->done = std::move(done);
  submission->unfinished = submission->tiles.size();
  // Registered before anything is queued: a worker may finish the last tile before Submit returns.
  // A cancellation that comes before the tiles are queued finds none, and is seen below.
  if (cancellation != nullptr) {
    submission->registration =
        cancellation->OnCancel([this, submission] { DropCancelled(*submission); });
  }

  const absl::Time now = clock_.Now();
  std::vector<QueuedTile> queued;
  for (size_t i = 0; i < submission->tiles.size(); ++i) queued.push_back({submission, i, now});
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    const auto open = open_.find(request);
    refusal = !stop_reason_.ok() ? stop_reason_
              : open == open_.end()
                  ? absl::InternalError(absl::StrCat("request ", request, " is not open"))
                  : submission->cancel_status();
    if (refusal.ok()) {
      Account& account = *open->second;
      submission->account = open->second;
      if (account.queue.empty()) {
        account.virtual_start = std::max(account.virtual_start, virtual_now_);
        due_[account.due()] = &account;
      }
      for (QueuedTile& tile : queued) {
        ++load_.queued_tiles;
        load_.queued_pixels += tile.pixels();
        account.queue.push_back(std::move(tile));
      }
      return;
    }
  }
  Finish(queued, refusal);
}

TileLoad TileScheduler::load() const {
  absl::MutexLock lock(&mutex_);
  return load_;
}

void TileScheduler::Stop(absl::Status reason) {
  std::vector<QueuedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_reason_.ok()) stop_reason_ = reason;
    for (const auto& [due, account] : due_) {
      // The queue keeps its account alive: empty it before the account may go.
      std::deque<QueuedTile> queue = std::move(account->queue);
      std::move(queue.begin(), queue.end(), std::back_inserter(dropped));
    }
    due_.clear();
    load_.queued_tiles = load_.queued_pixels = 0;
  }
  Finish(dropped, reason);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void TileScheduler::RunWorker(Stream& stream) {
  while (true) {
    Batch batch;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &TileScheduler::HasWork));
      if (!stop_reason_.ok()) return;
      batch = TakeBatch();
    }
    if (!batch.dropped.empty()) FinishDropped(batch.dropped);
    if (!batch.tiles.empty()) RunBatch(stream, batch);
  }
}

bool TileScheduler::HasWork() const { return !due_.empty() || !stop_reason_.ok(); }

TileScheduler::Batch TileScheduler::TakeBatch() {
  Batch batch;
  // A stream's share of what is queued, so that all streams end at about the same time (guided
  // self-scheduling, Polychronopoulos and Kuck 1987).
  const int64_t max_tiles = (load_.queued_tiles + concurrency() - 1) / concurrency();
  const auto can_join = [&](const auto& due) {
    const QueuedTile& head = due.second->queue.front();
    return batch.tiles.empty() || (head.submission->executable.get() == batch.executable() &&
                                   std::ssize(batch.tiles) < max_tiles &&
                                   batch.pixels + head.pixels() <= options_.max_batch_pixels);
  };
  while (true) {
    const auto next = std::find_if(due_.begin(), due_.end(), can_join);
    if (next == due_.end()) break;
    Account& account = *next->second;
    due_.erase(next);
    TakeTile(account, batch);
    if (!account.queue.empty()) due_[account.due()] = &account;
  }
  return batch;
}

void TileScheduler::TakeTile(Account& account, Batch& batch) {
  QueuedTile tile = std::move(account.queue.front());
  account.queue.pop_front();
  const int64_t pixels = tile.pixels();
  --load_.queued_tiles;
  load_.queued_pixels -= pixels;
  if (!tile.submission->cancel_status().ok()) {
    batch.dropped.push_back(std::move(tile));
    return;
  }
  if (batch.tiles.empty()) virtual_now_ = std::max(virtual_now_, account.virtual_start);
  account.virtual_start += pixels;
  ++load_.running_tiles;
  batch.pixels += pixels;
  batch.tiles.push_back(std::move(tile));
}

void TileScheduler::RunBatch(Stream& stream, const Batch& batch) {
  std::vector<TileTask> tasks;
  for (const QueuedTile& tile : batch.tiles) tasks.push_back(tile.task());
  const absl::Time start = clock_.Now();
  const absl::Status status = RunStream(stream, *batch.executable(), tasks);
  const absl::Duration infer = clock_.Now() - start;

  std::vector<absl::Duration> queue;
  {
    absl::MutexLock lock(&mutex_);
    load_.running_tiles -= std::ssize(batch.tiles);
    for (const QueuedTile& tile : batch.tiles) {
      queue.push_back(start - tile.submitted);
      RequestUsage& usage = tile.submission->account->usage;
      ++usage.tiles;
      usage.queue += queue.back();
      usage.infer += infer * (static_cast<double>(tile.pixels()) / batch.pixels);
    }
  }
  if (observer_ != nullptr) observer_->OnBatch({queue, infer, batch.pixels, status});
  Finish(batch.tiles, status);
}

void TileScheduler::DropCancelled(const Submission& submission) {
  std::vector<QueuedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (submission.account == nullptr) return;  // nothing queued yet
    Account& account = *submission.account;
    const auto due = due_.find(account.due());
    if (due == due_.end()) return;
    const auto mine = std::stable_partition(
        account.queue.begin(), account.queue.end(),
        [&](const QueuedTile& tile) { return tile.submission.get() != &submission; });
    std::move(mine, account.queue.end(), std::back_inserter(dropped));
    account.queue.erase(mine, account.queue.end());
    if (account.queue.empty()) due_.erase(due);
    for (const QueuedTile& tile : dropped) {
      --load_.queued_tiles;
      load_.queued_pixels -= tile.pixels();
    }
  }
  if (!dropped.empty()) FinishDropped(dropped);
}

void TileScheduler::FinishDropped(const std::vector<QueuedTile>& tiles) {
  if (observer_ != nullptr) observer_->OnDropped(tiles.size());
  for (const QueuedTile& tile : tiles) Finish({&tile, 1}, tile.submission->cancel_status());
}

void TileScheduler::Finish(std::span<const QueuedTile> tiles, const absl::Status& status) {
  std::vector<Submission*> ended;
  {
    absl::MutexLock lock(&mutex_);
    for (const QueuedTile& tile : tiles)
      if (--tile.submission->unfinished == 0) ended.push_back(tile.submission.get());
  }
  for (Submission* submission : ended) submission->registration.Reset();
  for (const QueuedTile& tile : tiles) tile.submission->done(tile.index, status);
}

}  // namespace upscaled::server
