#include "server/batching/tile_scheduler.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);

bool All(const QueuedTile&) { return true; }

// Memory that cannot be had fails the tiles, not the device, and may be there later.
absl::Status RunStream(Stream& stream, const Executable& executable,
                       std::span<const TileTask> tiles) {
  absl::Status status;
  try {
    status = stream.Run(executable, tiles);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("out of memory while running ", tiles.size(), " tile(s)"));
  }
  if (!absl::IsResourceExhausted(status)) return status;
  return MakeOverloaded(std::string(status.message()), kMemoryRetryDelay);
}

}  // namespace

TileScheduler::Request::~Request() {
  if (account_ == nullptr) return;
  absl::MutexLock lock(&owner_.mutex_);
  owner_.open_.erase(account_->id);
  if (account_->kind < 0) return;
  owner_.kinds_[account_->kind].bound_pixels -= std::exchange(account_->bound_pixels, 0);
}

uint64_t TileScheduler::Request::id() const { return account_->id; }

RequestUsage TileScheduler::Request::usage() const {
  absl::MutexLock lock(&owner_.mutex_);
  return account_->usage;
}

absl::StatusOr<DeviceExecutables> TileScheduler::Request::Load(
    const ModelCard& card, std::span<const ModelVariant* const> variants, Precision precision,
    int64_t pixels) {
  if (variants.empty()) return DeviceExecutables();
  DeviceList devices;
  {
    absl::MutexLock lock(&owner_.mutex_);
    devices = owner_.DevicesFor(pixels);
    if (devices.empty()) return owner_.NoDevice();
  }
  absl::StatusOr<DeviceExecutables> executables = LoadOnDevices(
      devices, card, variants, precision, [this](const Device& device, const absl::Status& fault) {
        owner_.TakeOut(device, fault, {});
      });
  absl::MutexLock lock(&owner_.mutex_);
  if (absl::IsUnavailable(executables.status())) return owner_.NoDevice();
  RETURN_IF_ERROR(executables.status());
  owner_.Adopt(*account_, *executables->front(), pixels);
  return executables;
}

TileScheduler::TileScheduler(const DeviceList& devices, const Clock& clock,
                             const TileSchedulerOptions& options, TileObserver* observer)
    : clock_(clock), options_(options), observer_(observer) {
  UPSCALED_CHECK(!devices.empty());
  {
    absl::MutexLock lock(&mutex_);
    for (const std::shared_ptr<Device>& device : devices) {
      slots_.push_back({device->name(), device->stream_count(), device, absl::OkStatus()});
      kinds_.resize(std::max<size_t>(kinds_.size(), device->kind() + 1));
    }
  }
  for (const std::shared_ptr<Device>& device : devices) {
    const int streams = device->stream_count();
    for (int i = 0; i < streams; ++i) {
      workers_.emplace_back([this, slot = device->slot(), i, streams] {
        BindPoolThread(i, streams);
        RunWorker(slot);
      });
    }
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
  submission->executable = std::dynamic_pointer_cast<const DeviceExecutable>(executable);
  UPSCALED_CHECK(submission->executable != nullptr);
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
    if (open != open_.end() && open->second->kind < 0) {
      Adopt(*open->second, *submission->executable, 0);
    }
    refusal = !stop_reason_.ok() ? stop_reason_
              : open == open_.end()
                  ? absl::InternalError(absl::StrCat("request ", request, " is not open"))
              : !Bind(*open->second) ? NoDevice()
                                     : submission->cancel_status();
    if (refusal.ok()) {
      Account& account = *open->second;
      submission->account = open->second;
      for (QueuedTile& tile : queued) {
        kinds_[account.kind].queue.Append(account, std::move(tile));
      }
      return;
    }
  }
  Finish(queued, refusal);
}

int TileScheduler::StreamCount(int kind) const {
  absl::MutexLock lock(&mutex_);
  return StreamCountLocked(kind);
}

int TileScheduler::StreamCountLocked(int kind) const {
  int streams = 0;
  for (const Slot& slot : slots_) {
    if (slot.device != nullptr && slot.device->kind() == kind) streams += slot.streams;
  }
  return streams;
}

int TileScheduler::IdleStreamCount(int kind) const {
  absl::MutexLock lock(&mutex_);
  const TileLoad& load = kinds_[kind].queue.load();
  return static_cast<int>(
      std::max<int64_t>(0, StreamCountLocked(kind) - load.running_tiles - load.queued_tiles));
}

TileLoad TileScheduler::load() const {
  absl::MutexLock lock(&mutex_);
  TileLoad sum;
  for (const Kind& kind : kinds_) {
    sum.queued_tiles += kind.queue.load().queued_tiles;
    sum.queued_pixels += kind.queue.load().queued_pixels;
    sum.running_tiles += kind.queue.load().running_tiles;
  }
  return sum;
}

DeviceList TileScheduler::devices() const {
  absl::MutexLock lock(&mutex_);
  return DevicesLocked();
}

DeviceList TileScheduler::DevicesLocked() const {
  DeviceList devices;
  for (const Slot& slot : slots_) {
    if (slot.device != nullptr) devices.push_back(slot.device);
  }
  return devices;
}

DeviceList TileScheduler::DevicesFor(int64_t pixels) const {
  std::vector<absl::Duration> time;  // until all is done, by kind
  for (const Kind& kind : kinds_) {
    const TileLoad& load = kind.queue.load();
    const bool idle = kind.bound_pixels == 0 && load.queued_tiles + load.running_tiles == 0;
    // One request finds out how fast a kind is, others do not wait for that.
    time.push_back(kind.speed.known() || idle
                       ? kind.speed.TimeFor(kind.bound_pixels + load.queued_pixels + pixels)
                       : absl::InfiniteDuration());
  }
  DeviceList devices = DevicesLocked();
  std::ranges::stable_sort(devices, {}, [&](const auto& device) { return time[device->kind()]; });
  return devices;
}

bool TileScheduler::IsUp(const Device& device) const {
  return slots_[device.slot()].device.get() == &device;
}

void TileScheduler::Adopt(Account& account, const DeviceExecutable& executable, int64_t pixels) {
  for (const DeviceExecutable::Part& part : executable.parts()) {
    account.devices.push_back(part.device);
  }
  account.kind = executable.kind();
  account.bound_pixels = pixels;
  kinds_[account.kind].bound_pixels += pixels;
}

bool TileScheduler::Bind(Account& account) {
  const Device* best = nullptr;
  for (const std::shared_ptr<Device>& device : account.devices) {
    if (!IsUp(*device)) continue;
    if (device->kind() == account.kind) return true;
    if (best == nullptr) best = device.get();
  }
  if (best == nullptr) return false;
  Kind& from = kinds_[account.kind];
  Kind& to = kinds_[best->kind()];
  from.bound_pixels -= account.bound_pixels;
  to.bound_pixels += account.bound_pixels;
  std::vector<QueuedTile> tiles = from.queue.Remove(account, All);
  account.kind = best->kind();
  account.virtual_start = 0;  // of another queue: it begins there like a new request
  for (QueuedTile& tile : tiles) to.queue.Append(account, std::move(tile));
  return true;
}

absl::Status TileScheduler::NoDevice() const {
  std::vector<std::string> faults;
  for (const Slot& slot : slots_) {
    if (slot.device == nullptr) {
      faults.push_back(absl::StrCat(slot.name, " failed: ", slot.fault.message()));
    }
  }
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDeviceFailure,
                   absl::StrCat("no device is left to compute on; ", absl::StrJoin(faults, "; ")));
}

void TileScheduler::Restore(std::shared_ptr<Device> device) {
  absl::MutexLock lock(&mutex_);
  Slot& slot = slots_[device->slot()];
  slot.device = std::move(device);
}

void TileScheduler::Stop(absl::Status reason) {
  std::vector<QueuedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_reason_.ok()) stop_reason_ = reason;
    for (Kind& kind : kinds_) {
      for (Account* account : kind.queue.accounts()) {
        std::ranges::move(kind.queue.Remove(*account, All), std::back_inserter(dropped));
      }
    }
  }
  Finish(dropped, reason);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void TileScheduler::RunWorker(int slot) {
  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;  // of the device
  while (true) {
    FairQueue::Batch batch;
    std::shared_ptr<Device> now;
    {
      absl::MutexLock lock(&mutex_);
      const auto awake = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return !stop_reason_.ok() || slots_[slot].device != device ||
               (device != nullptr && kinds_[device->kind()].queue.HasWorkFor(*device));
      };
      mutex_.Await(absl::Condition(&awake));
      if (!stop_reason_.ok()) return;
      now = slots_[slot].device;
      if (now == device) {
        Kind& kind = kinds_[device->kind()];
        kind.speed.Record(clock_.Now(), kind.queue.load().running_tiles > 0, 0);
        batch =
            kind.queue.Take(*device, StreamCountLocked(device->kind()), options_.max_batch_pixels);
      }
    }
    if (now != device) {
      stream = nullptr;
      device = now;
      if (device != nullptr) stream = device->backend().CreateStream();
      continue;
    }
    if (!batch.dropped.empty()) FinishDropped(batch.dropped);
    if (!batch.tiles.empty()) RunBatch(*device, *stream, std::move(batch));
  }
}

void TileScheduler::RunBatch(const Device& device, Stream& stream, FairQueue::Batch batch) {
  std::vector<TileTask> tasks;
  for (const QueuedTile& tile : batch.tiles) {
    tasks.push_back(tile.submission->executable->TaskFor(device, tile.task()));
  }
  const absl::Time start = clock_.Now();
  const absl::Status status = RunStream(stream, *batch.executable, tasks);
  const absl::Time end = clock_.Now();

  std::vector<absl::Duration> queue;
  {
    absl::MutexLock lock(&mutex_);
    Kind& kind = kinds_[device.kind()];
    kind.queue.Ended(batch);
    kind.speed.Record(end, true, status.ok() ? batch.pixels : 0);
    for (const QueuedTile& tile : batch.tiles) {
      queue.push_back(start - tile.submitted);
      if (!status.ok()) continue;
      RequestUsage& usage = tile.submission->account->usage;
      ++usage.tiles;
      usage.queue += queue.back();
      usage.infer += (end - start) * (static_cast<double>(tile.pixels()) / batch.pixels);
      if (!std::ranges::count(usage.devices, device.name())) usage.devices.push_back(device.name());
    }
  }
  if (observer_ != nullptr) observer_->OnBatch({queue, end - start, batch.pixels, status});
  if (IsDeviceFault(status)) {
    TakeOut(device, status, std::move(batch.tiles));
  } else {
    Finish(batch.tiles, status);
  }
}

void TileScheduler::TakeOut(const Device& device, const absl::Status& fault,
                            std::vector<QueuedTile> tiles) {
  std::vector<QueuedTile> stopped, failed_twice, stranded;
  int64_t moved = 0;
  bool was_up = false;
  absl::Status no_device, stop_reason;
  {
    absl::MutexLock lock(&mutex_);
    Slot& slot = slots_[device.slot()];
    was_up = IsUp(device);
    if (was_up) {
      slot.fault = fault;
      slot.device = nullptr;
    }
    stop_reason = stop_reason_;
    for (auto tile = tiles.rbegin(); tile != tiles.rend(); ++tile) {
      Account& account = *tile->submission->account;
      if (!stop_reason.ok()) {
        stopped.push_back(std::move(*tile));
      } else if (std::exchange(tile->moved, true)) {
        failed_twice.push_back(std::move(*tile));
      } else if (!Bind(account)) {
        stranded.push_back(std::move(*tile));
      } else {
        ++moved;
        kinds_[account.kind].queue.PutBack(account, std::move(*tile));
      }
    }
    FairQueue& queue = kinds_[device.kind()].queue;
    for (Account* account : queue.accounts()) {
      if (Bind(*account)) continue;
      std::ranges::move(queue.Remove(*account, All), std::back_inserter(stranded));
    }
    no_device = NoDevice();
  }
  if (was_up && options_.on_device_failed) options_.on_device_failed(device, fault);
  if (observer_ != nullptr && moved > 0) observer_->OnMoved(moved);
  Finish(stopped, stop_reason);
  Finish(failed_twice, MakeError(absl::StatusCode::kInternal, ErrorReason::kDeviceFailure,
                                 absl::StrCat("a tile failed on two devices; on ", device.name(),
                                              ": ", fault.message())));
  Finish(stranded, no_device);
}

void TileScheduler::DropCancelled(const Submission& submission) {
  std::vector<QueuedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (submission.account == nullptr) return;  // nothing queued yet
    Account& account = *submission.account;
    dropped = kinds_[account.kind].queue.Remove(
        account, [&](const QueuedTile& tile) { return tile.submission.get() == &submission; });
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
