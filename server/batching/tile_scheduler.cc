#include "server/batching/tile_scheduler.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/cpu_info.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);

bool All(const QueuedTile&) { return true; }

// Memory that cannot be had fails the tiles, not the device, and may be there later.
absl::Status RunStream(const Device& device, Stream& stream, const FairQueue::Batch& batch) {
  absl::Status status;
  try {
    std::vector<TileTask> tasks;
    for (const QueuedTile& tile : batch.tiles) {
      tasks.push_back(tile.submission->executable->TaskFor(device, tile.task()));
    }
    status = stream.Run(*batch.executable, tasks);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("out of memory while running ", batch.tiles.size(), " tile(s)"));
  }
  if (!absl::IsResourceExhausted(status)) return status;
  return MakeOverloaded(std::string(status.message()), kMemoryRetryDelay);
}

}  // namespace

TileScheduler::TileScheduler(DeviceQuarantine& quarantine, const Clock& clock,
                             const TileSchedulerOptions& options, TileObserver* observer)
    : quarantine_(quarantine), clock_(clock), options_(options), observer_(observer) {
  const DeviceList devices = quarantine.working();
  {
    absl::MutexLock lock(&mutex_);
    slots_ = devices;
    for (const std::shared_ptr<Device>& device : devices) {
      classes_.resize(std::max<size_t>(classes_.size(), device->device_class() + 1));
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

RequestFlow TileScheduler::OpenFlow() {
  absl::MutexLock lock(&mutex_);
  return RequestFlow(*this, std::make_shared<Flow>(++last_flow_));
}

void TileScheduler::Adopt(Flow& flow, DeviceChooser::Choice choice) {
  if (choice.executables.empty()) return;
  absl::MutexLock lock(&mutex_);
  flow.executables = std::move(choice.executables);
  flow.device_class = flow.executables.front()->device_class();
  flow.binding = std::move(choice.binding);
}

void TileScheduler::Submit(const std::shared_ptr<Flow>& flow, const Executable& executable,
                           std::vector<TileTask> tiles, Cancellation* cancellation,
                           TileExecutor::TileDone done) {
  if (tiles.empty()) return;
  auto submission = std::make_shared<Submission>();
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
  const absl::Status refusal = Enqueue(flow, executable, submission, queued);
  if (!refusal.ok()) Finish(queued, refusal);
}

absl::Status TileScheduler::Enqueue(const std::shared_ptr<Flow>& flow, const Executable& executable,
                                    const std::shared_ptr<Submission>& submission,
                                    const std::vector<QueuedTile>& tiles) {
  absl::MutexLock lock(&mutex_);
  const auto own = std::ranges::find(flow->executables, &executable,
                                     [](const auto& adopted) { return adopted.get(); });
  UPSCALED_CHECK(own != flow->executables.end());
  submission->executable = *own;
  if (!stop_reason_.ok()) return stop_reason_;
  if (!Bind(*flow)) return quarantine_.NoDeviceError();
  if (absl::Status cancelled = submission->cancel_status(); !cancelled.ok()) return cancelled;
  submission->flow = flow;
  for (const QueuedTile& tile : tiles) classes_[flow->device_class].queue.Append(*flow, tile);
  return absl::OkStatus();
}

RequestUsage TileScheduler::UsageOf(const Flow& flow) const {
  absl::MutexLock lock(&mutex_);
  return flow.usage;
}

void TileScheduler::Close(Flow& flow) {
  absl::MutexLock lock(&mutex_);
  flow.binding.Release();
}

int TileScheduler::StreamCount(int device_class) const {
  absl::MutexLock lock(&mutex_);
  return StreamCountLocked(device_class);
}

int TileScheduler::StreamCountLocked(int device_class) const {
  int streams = 0;
  for (const std::shared_ptr<Device>& device : slots_) {
    if (device == nullptr || device->device_class() != device_class) continue;
    streams += device->stream_count();
  }
  return streams;
}

int TileScheduler::IdleStreamCount(int device_class) const {
  absl::MutexLock lock(&mutex_);
  const TileLoad& load = classes_[device_class].queue.load();
  return static_cast<int>(std::max<int64_t>(
      0, StreamCountLocked(device_class) - load.running_tiles - load.queued_tiles));
}

TileLoad TileScheduler::load() const {
  absl::MutexLock lock(&mutex_);
  TileLoad sum;
  for (const DeviceClass& device_class : classes_) {
    sum.queued_tiles += device_class.queue.load().queued_tiles;
    sum.queued_pixels += device_class.queue.load().queued_pixels;
    sum.running_tiles += device_class.queue.load().running_tiles;
  }
  return sum;
}

std::vector<DeviceClassWork> TileScheduler::work() const {
  absl::MutexLock lock(&mutex_);
  std::vector<DeviceClassWork> work;
  for (const DeviceClass& device_class : classes_) {
    const TileLoad& load = device_class.queue.load();
    work.push_back({.queued_pixels = load.queued_pixels,
                    .idle = load.queued_tiles + load.running_tiles == 0,
                    .speed = device_class.speed});
  }
  return work;
}

bool TileScheduler::Bind(Flow& flow) {
  const Device* best = nullptr;
  for (const DeviceExecutable::Part& part : flow.executables.front()->parts()) {
    const Device& device = *part.device;
    if (slots_[device.slot()].get() != &device) continue;  // it has failed
    if (device.device_class() == flow.device_class) return true;
    if (best == nullptr) best = &device;
  }
  if (best == nullptr) return false;
  flow.binding.MoveTo(best->device_class());
  std::vector<QueuedTile> tiles = classes_[flow.device_class].queue.Remove(flow, All);
  flow.device_class = best->device_class();
  flow.virtual_start = 0;  // that was another queue's: it begins here like a new request
  for (QueuedTile& tile : tiles) classes_[flow.device_class].queue.Append(flow, std::move(tile));
  return true;
}

void TileScheduler::Stop(absl::Status reason) {
  std::vector<QueuedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_reason_.ok()) stop_reason_ = reason;
    for (DeviceClass& device_class : classes_) {
      for (Flow* flow : device_class.queue.flows()) {
        std::ranges::move(device_class.queue.Remove(*flow, All), std::back_inserter(dropped));
      }
    }
  }
  Finish(dropped, reason);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void TileScheduler::RunWorker(int slot) {
  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;  // the device's
  while (true) {
    FairQueue::Batch batch;
    std::shared_ptr<Device> now;
    {
      absl::MutexLock lock(&mutex_);
      const auto awake = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return !stop_reason_.ok() || slots_[slot] != device ||
               (device != nullptr && classes_[device->device_class()].queue.HasWorkFor(*device));
      };
      mutex_.Await(absl::Condition(&awake));
      if (!stop_reason_.ok()) return;
      now = slots_[slot];
      if (now == device) {
        auto& [queue, speed] = classes_[device->device_class()];
        speed.Record(clock_.Now(), queue.load().running_tiles > 0, 0);
        batch = queue.Take(*device, StreamCountLocked(device->device_class()),
                           options_.max_batch_pixels);
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
  const absl::Time start = clock_.Now();
  const absl::Status status = RunStream(device, stream, batch);
  const absl::Time end = clock_.Now();

  std::vector<absl::Duration> queue;
  {
    absl::MutexLock lock(&mutex_);
    DeviceClass& device_class = classes_[device.device_class()];
    device_class.queue.Ended(batch);
    device_class.speed.Record(end, true, status.ok() ? batch.pixels : 0);
    for (const QueuedTile& tile : batch.tiles) {
      queue.push_back(start - tile.submitted);
      if (!status.ok()) continue;
      RequestUsage& usage = tile.submission->flow->usage;
      ++usage.tiles;
      usage.queue += queue.back();
      usage.infer += (end - start) * (static_cast<double>(tile.pixels()) / batch.pixels);
      if (!std::ranges::count(usage.devices, device.name())) usage.devices.push_back(device.name());
    }
  }
  if (observer_ != nullptr) observer_->OnBatch({queue, end - start, batch.pixels, status});
  if (IsDeviceFault(status)) {
    OnFault(device, status, std::move(batch.tiles));
  } else {
    Finish(batch.tiles, status);
  }
}

void TileScheduler::OnFault(const Device& device, const absl::Status& fault,
                            std::vector<QueuedTile> tiles) {
  const bool news = quarantine_.Add(device, fault);
  std::vector<QueuedTile> stopped, failed_twice, stranded;
  int64_t moved = 0;
  absl::Status no_device, stop_reason;
  {
    absl::MutexLock lock(&mutex_);
    slots_[device.slot()] = quarantine_.InSlot(device.slot());
    stop_reason = stop_reason_;
    for (auto tile = tiles.rbegin(); tile != tiles.rend(); ++tile) {
      Flow& flow = *tile->submission->flow;
      if (!stop_reason.ok()) {
        stopped.push_back(std::move(*tile));
      } else if (std::exchange(tile->moved, true)) {
        failed_twice.push_back(std::move(*tile));
      } else if (!Bind(flow)) {
        stranded.push_back(std::move(*tile));
      } else {
        ++moved;
        classes_[flow.device_class].queue.PutBack(flow, std::move(*tile));
      }
    }
    std::ranges::move(UpdateSlot(device), std::back_inserter(stranded));
    no_device = quarantine_.NoDeviceError();
  }
  if (news) quarantine_.Announce(device, fault);
  if (observer_ != nullptr && moved > 0) observer_->OnMoved(moved);
  Finish(stopped, stop_reason);
  Finish(failed_twice, MakeError(absl::StatusCode::kInternal, ErrorReason::kDeviceFailure,
                                 absl::StrCat("a tile failed on two devices; on ", device.name(),
                                              ": ", fault.message())));
  Finish(stranded, no_device);
}

void TileScheduler::OnDeviceChanged(const Device& device) {
  std::vector<QueuedTile> stranded;
  absl::Status no_device;
  {
    absl::MutexLock lock(&mutex_);
    stranded = UpdateSlot(device);
    no_device = quarantine_.NoDeviceError();
  }
  Finish(stranded, no_device);
}

std::vector<QueuedTile> TileScheduler::UpdateSlot(const Device& device) {
  slots_[device.slot()] = quarantine_.InSlot(device.slot());
  FairQueue& queue = classes_[device.device_class()].queue;
  std::vector<QueuedTile> stranded;
  for (Flow* flow : queue.flows()) {
    if (Bind(*flow)) continue;
    std::ranges::move(queue.Remove(*flow, All), std::back_inserter(stranded));
  }
  return stranded;
}

void TileScheduler::DropCancelled(const Submission& submission) {
  std::vector<QueuedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (submission.flow == nullptr) return;  // nothing queued yet
    Flow& flow = *submission.flow;
    dropped = classes_[flow.device_class].queue.Remove(
        flow, [&](const QueuedTile& tile) { return tile.submission.get() == &submission; });
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
