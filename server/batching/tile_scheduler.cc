#include "server/batching/tile_scheduler.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/base/thread_name.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

constexpr absl::Duration kMemoryRetryDelay = absl::Seconds(1);
// The interval of looks by streams with background work held back: no event tells of the time of a
// client's wait.
constexpr absl::Duration kHoldCheck = absl::Milliseconds(10);

// Sets the tile's place in its submission's `flags`.
void Mark(const SubmittedTile& tile, std::vector<bool>& flags) {
  if (flags.empty()) flags.resize(tile.submission->tiles.size());
  flags[tile.index] = true;
}

// Notes a device's failure on the tile; whether one had failed before.
bool FailedBefore(const SubmittedTile& tile) {
  const bool failed = tile.moved();
  Mark(tile, tile.submission->moved);
  return failed;
}

absl::Status OtherBytes() {
  return MakeError(absl::StatusCode::kUnavailable, ErrorReason::kDeviceFailure,
                   "the devices that the result was begun on have failed, and a device of another "
                   "class computes other bytes; try again");
}

// `batch_cost` is the cost of all tiles of the run. They share the `spent` time.
void AddToUsage(const SubmittedTile& tile, const Device& device, int64_t batch_cost,
                const Interval& run, absl::Duration spent) {
  const absl::Time submitted = tile.submission->submitted;
  RequestUsage& usage = tile.submission->flow->usage;
  ++usage.tiles;
  usage.cost += tile.cost();
  usage.queue += run.begin - submitted;
  usage.infer += spent * (static_cast<double>(tile.cost()) / batch_cost);
  usage.queuing.Include(submitted, run.begin);
  usage.running.Include(run.begin, run.end);
  if (usage.tile_runs.size() < kMaxTileRuns) usage.tile_runs.push_back(run);
  if (!std::ranges::count(usage.devices, device.name())) usage.devices.push_back(device.name());
}

// A lack of memory fails the tiles, not the device: memory may be there later.
absl::Status RunStream(const Device& device, Stream& stream, const FairQueue::Batch& batch) {
  absl::Status status;
  try {
    std::vector<TileTask> tasks;
    for (const SubmittedTile& tile : batch.tiles) {
      const RowStream* const rows = tile.task().slice.stream;
      if (rows != nullptr && rows->maker() != batch.executable) {
        return MakeOverloaded("the device that held the rows of an image above has failed",
                              kMemoryRetryDelay);
      }
      tasks.push_back(tile.submission->executable->TaskFor(device, tile.task()));
    }
    status = stream.Run(*batch.executable, tasks);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("out of memory while running ", batch.tiles.size(), " tile(s)"));
  } catch (const std::exception& error) {
    status = absl::InternalError(error.what());
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
        NameThread("stream");
        BindPoolThread(i, streams);
        RunWorker(slot);
      });
    }
  }
}

TileScheduler::~TileScheduler() { Stop(absl::UnavailableError("the tile scheduler was stopped")); }

RequestFlow TileScheduler::OpenFlow(Payer payer, std::shared_ptr<CostMeter> meter,
                                    const std::shared_ptr<Payers>& payers) {
  std::shared_ptr<Flow> flow;
  {
    absl::MutexLock lock(&mutex_);
    flow = std::make_shared<Flow>(++last_flow_, std::move(payer), std::move(meter), payers);
  }
  if (payers != nullptr) {
    payers->Listen([this, watched = std::weak_ptr<Flow>(flow)] {
      const std::shared_ptr<Flow> open = watched.lock();
      if (open == nullptr) return;
      absl::MutexLock lock(&mutex_);
      ChoosePayer(*open);
    });
    absl::MutexLock lock(&mutex_);
    ChoosePayer(*flow);  // some may have come before
  }
  return RequestFlow(*this, std::move(flow));
}

void TileScheduler::ChoosePayer(Flow& flow) {
  if (flow.payers == nullptr || flow.device_class < 0) return;
  const std::vector<Payer> payers = flow.payers->list();
  FairQueue& queue = classes_[flow.device_class].queue;
  Payer best = queue.BestPayer(flow, payers);
  if (best.name() == flow.payer.name() && best.priority() == flow.payer.priority()) return;
  queue.ChangePayer(flow, std::move(best));
}

Payer TileScheduler::PayerOf(const Flow& flow) const {
  absl::MutexLock lock(&mutex_);
  return flow.payer;
}

void TileScheduler::Adopt(Flow& flow, DeviceChooser::Choice choice) {
  if (choice.executables.empty()) return;
  absl::MutexLock lock(&mutex_);
  flow.executables = std::move(choice.executables);
  flow.device_class = flow.executables.front()->device_class();
  flow.binding = std::move(choice.binding);
}

absl::StatusOr<int> TileScheduler::KeepClass(Flow& flow) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Bind(flow));
  flow.keeps_class = true;
  return flow.device_class;
}

void TileScheduler::Submit(const std::shared_ptr<Flow>& flow, const Executable& executable,
                           std::vector<TileTask> tiles, Cancellation* cancellation,
                           TileExecutor::TileDone done) {
  if (tiles.empty()) return;
  for (TileTask& tile : tiles) tile.cancellation = cancellation;
  const auto submission =
      std::make_shared<Submission>(std::move(tiles), cancellation, std::move(done), clock_.Now());
  // Registered before anything is queued: a worker may finish the last tile before Submit returns.
  // A cancellation before the tiles are queued finds none, and is seen below.
  if (cancellation != nullptr) {
    submission->registration =
        cancellation->OnCancel([this, submission] { DropCancelled(*submission); });
  }
  const absl::Status refusal = Enqueue(flow, executable, submission);
  if (refusal.ok()) return;
  std::vector<SubmittedTile> refused;
  for (size_t i = 0; i < submission->tiles.size(); ++i) refused.push_back({submission, i});
  Finish(refused, refusal);
}

absl::Status TileScheduler::Enqueue(const std::shared_ptr<Flow>& flow, const Executable& executable,
                                    const std::shared_ptr<Submission>& submission) {
  absl::MutexLock lock(&mutex_);
  const auto own = std::ranges::find(flow->executables, &executable,
                                     [](const auto& adopted) { return adopted.get(); });
  UPSCALED_CHECK(own != flow->executables.end());
  submission->executable = *own;
  if (!stop_reason_.ok()) return stop_reason_;
  if (absl::Status stranded = Bind(*flow); !stranded.ok()) return stranded;
  if (absl::Status cancelled = submission->cancel_status(); !cancelled.ok()) return cancelled;
  submission->flow = flow;
  ChoosePayer(*flow);
  flow->client_waited = absl::ZeroDuration();
  classes_[flow->device_class].queue.Append(submission);
  unheld_.NotifyAll();
  return absl::OkStatus();
}

RequestUsage TileScheduler::UsageOf(const Flow& flow) const {
  absl::MutexLock lock(&mutex_);
  return flow.usage;
}

void TileScheduler::Close(Flow& flow) {
  absl::MutexLock lock(&mutex_);
  flow.binding.Release();
  if (expected_.erase(&flow) > 0) unheld_.NotifyAll();
}

void TileScheduler::ExpectTiles(Flow& flow, bool more) {
  absl::MutexLock lock(&mutex_);
  if (flow.payer.priority() != Priority::kInteractive) return;
  if (more) {
    flow.client_waited = absl::ZeroDuration();
    expected_.insert(&flow);
  } else if (expected_.erase(&flow) > 0) {
    unheld_.NotifyAll();
  }
}

void TileScheduler::SetClientWait(Flow& flow, bool waits) {
  const absl::Time now = clock_.Now();
  absl::MutexLock lock(&mutex_);
  if (!waits) flow.client_waited += now - flow.client_wait;
  flow.client_wait = waits ? now : absl::InfiniteFuture();
}

bool TileScheduler::HoldsBack(int device_class) const {
  const absl::Time now = clock_.Now();
  return std::ranges::any_of(expected_, [&](const Flow* flow) {
    const absl::Duration waits = std::max(now - flow->client_wait, absl::ZeroDuration());
    return flow->device_class == device_class &&
           flow->client_waited + waits < options_.max_client_wait;
  });
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

int64_t TileScheduler::MaxBatchCost(const DeviceClass& device_class, int streams) const {
  const double cost = device_class.speed.CostIn(options_.max_batch_time) / std::max(streams, 1);
  const auto max_cost = static_cast<double>(options_.max_batch_cost);
  return static_cast<int64_t>(std::min(cost, max_cost));
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
    sum.queued_cost += device_class.queue.load().queued_cost;
    sum.running_tiles += device_class.queue.load().running_tiles;
  }
  return sum;
}

std::vector<DeviceClassWork> TileScheduler::work() const {
  absl::MutexLock lock(&mutex_);
  std::vector<DeviceClassWork> work;
  const absl::Time now = clock_.Now();
  for (size_t i = 0; i < classes_.size(); ++i) {
    const FairQueue& queue = classes_[i].queue;
    const TileLoad& load = queue.load();
    work.push_back({.queued_cost = load.queued_cost,
                    .idle = load.queued_tiles + load.running_tiles == 0,
                    .backlogged = {queue.Backlogged(Priority::kInteractive, now),
                                   queue.Backlogged(Priority::kBackground, now)},
                    .speed = classes_[i].speed,
                    .stream_speed = classes_[i].stream_speeds.OfAll(now),
                    .streams = StreamCountLocked(static_cast<int>(i))});
  }
  return work;
}

double TileScheduler::StreamSpeed(const DeviceExecutable& executable) const {
  absl::MutexLock lock(&mutex_);
  return classes_[executable.device_class()].stream_speeds.Of(executable, clock_.Now());
}

absl::Status TileScheduler::Bind(Flow& flow) {
  const Device* best = nullptr;
  for (const DeviceExecutable::Part& part : flow.executables.front()->parts()) {
    const Device& device = *part.device;
    if (slots_[device.slot()].get() != &device) continue;  // it has failed
    if (device.device_class() == flow.device_class) return absl::OkStatus();
    if (best == nullptr) best = &device;
  }
  if (best == nullptr) return quarantine_.NoDeviceError();
  if (flow.keeps_class) return OtherBytes();
  flow.binding.MoveTo(best->device_class());
  classes_[flow.device_class].queue.Move(flow, classes_[best->device_class()].queue);
  flow.device_class = best->device_class();
  return absl::OkStatus();
}

void TileScheduler::Stop(absl::Status reason) {
  std::vector<SubmittedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (stop_reason_.ok()) stop_reason_ = reason;
    unheld_.NotifyAll();
    for (DeviceClass& device_class : classes_) {
      for (Flow* flow : device_class.queue.flows()) {
        device_class.queue.Remove(*flow, dropped);
      }
    }
  }
  Finish(dropped, reason);
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

bool TileScheduler::WatchRuns(absl::Duration passed) {
  bool stuck = false;
  for (const RunWatch::Overdue& run : watch_.Advance(passed)) {
    if (run.stuck) {
      stuck = true;
      continue;
    }
    OnFault(
        *run.device,
        absl::DeadlineExceededError(absl::StrCat(run.device->name(), ": a run has not ended after ",
                                                 absl::FormatDuration(run.taken))),
        {});
    run.device->backend().GiveUp();
  }
  return stuck;
}

Priority TileScheduler::AwaitWork(int slot, const std::shared_ptr<Device>& device) {
  const auto awake = [&](Priority last) ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !stop_reason_.ok() || slots_[slot] != device ||
           (device != nullptr && classes_[device->device_class()].queue.HasWorkFor(*device, last));
  };
  const auto any = [&]()
                       ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return awake(Priority::kBackground); };
  const auto no_background = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return expected_.empty() || awake(Priority::kInteractive);
  };
  mutex_.Await(absl::Condition(&any));
  if (device == nullptr || !HoldsBack(device->device_class())) return Priority::kBackground;
  unheld_.Await(mutex_, kHoldCheck, no_background);
  return Priority::kInteractive;
}

void TileScheduler::RunWorker(int slot) {
  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;  // the device's
  while (true) {
    FairQueue::Batch batch;
    std::shared_ptr<Device> now;
    {
      absl::MutexLock lock(&mutex_);
      const Priority last = AwaitWork(slot, device);
      if (!stop_reason_.ok()) return;
      now = slots_[slot];
      if (now == device) {
        DeviceClass& own = classes_[device->device_class()];
        own.speed.Record(clock_.Now(), own.queue.load().running_tiles > 0, 0);
        const int streams = StreamCountLocked(device->device_class());
        batch = own.queue.Take(*device, streams, MaxBatchCost(own, streams), last);
      }
    }
    if (now != device) {
      stream = nullptr;
      device = now;
      if (device != nullptr) stream = device->backend().CreateStream();
      continue;
    }
    if (!batch.dropped.empty()) FinishDropped(batch.dropped);
    if (!batch.tiles.empty()) RunBatch(device, *stream, std::move(batch));
  }
}

void TileScheduler::RunBatch(const std::shared_ptr<Device>& device_kept, Stream& stream,
                             FairQueue::Batch batch) {
  const Device& device = *device_kept;
  const absl::Time start = clock_.Now();
  const absl::Status status = [&] {
    const RunWatch::Run watched = watch_.Begin(device_kept, batch.cost, LastSpeed(device, batch));
    return RunStream(device, stream, batch);
  }();
  const absl::Time end = clock_.Now();
  // By this stream and by otherwise idle ones.
  const absl::Duration spent = end - start + stream.HelpedTime();
  // Cancelled tiles may have ended early: neither their time nor their cost says anything of the
  // device's speed.
  const bool measured = status.ok() && std::ranges::all_of(batch.tiles, [](const auto& tile) {
                          return tile.submission->cancel_status().ok();
                        });

  // Only the tiles to blame fail.
  const bool again = !status.ok() && !IsDeviceFault(status) && batch.tiles.size() > 1;
  std::vector<absl::Duration> queue;
  std::vector<StrandedTile> stranded;
  {
    absl::MutexLock lock(&mutex_);
    DeviceClass& device_class = classes_[device.device_class()];
    device_class.queue.Ended(batch);
    // The time of other streams' running batches counts all the same.
    const bool busy = measured || device_class.queue.load().running_tiles > 0;
    device_class.speed.Record(end, busy, measured ? batch.cost : 0);
    if (measured) {
      const DeviceExecutable& executable = *batch.tiles.front().submission->executable;
      device_class.stream_speeds.Record(executable.PartOn(device)->executable, spent, batch.cost,
                                        end);
    }
    for (const SubmittedTile& tile : batch.tiles) {
      queue.push_back(start - tile.submission->submitted);
      if (status.ok()) AddToUsage(tile, device, batch.cost, {start, end}, spent);
    }
    if (again) {
      for (const SubmittedTile& tile : batch.tiles) Mark(tile, tile.submission->alone);
      stranded = PutBack(batch.tiles);
    }
  }
  if (observer_ != nullptr) {
    observer_->OnBatch({queue, end - start, batch.pixels, status, device.name(), spent});
  }
  if (IsDeviceFault(status)) {
    OnFault(device, status, std::move(batch.tiles));
  } else if (again) {
    FinishStranded(stranded);
  } else {
    Finish(batch.tiles, status);
  }
}

double TileScheduler::LastSpeed(const Device& device, const FairQueue::Batch& batch) const {
  const DeviceExecutable& executable = *batch.tiles.front().submission->executable;
  absl::MutexLock lock(&mutex_);
  return classes_[device.device_class()].stream_speeds.LastOf(
      executable.PartOn(device)->executable);
}

void TileScheduler::OnFault(const Device& device, const absl::Status& fault,
                            std::vector<SubmittedTile> tiles) {
  const bool news = quarantine_.Add(device, fault);
  std::vector<StrandedTile> stranded;
  std::span<SubmittedTile> failed_twice;
  int64_t moved = 0;
  {
    absl::MutexLock lock(&mutex_);
    slots_[device.slot()] = quarantine_.InSlot(device.slot());
    const auto twice = std::stable_partition(
        tiles.begin(), tiles.end(), [](const SubmittedTile& tile) { return !FailedBefore(tile); });
    failed_twice = {twice, tiles.end()};
    stranded = PutBack({tiles.begin(), twice});
    moved = std::ssize(tiles) - std::ssize(failed_twice) - std::ssize(stranded);
  }
  if (news) quarantine_.Announce(device, fault);
  if (observer_ != nullptr && moved > 0) observer_->OnMoved(moved);
  Finish(failed_twice, MakeError(absl::StatusCode::kInternal, ErrorReason::kDeviceFailure,
                                 absl::StrCat("a tile failed on two devices; on ", device.name(),
                                              ": ", fault.message())));
  FinishStranded(stranded);
}

std::vector<TileScheduler::StrandedTile> TileScheduler::PutBack(std::span<SubmittedTile> tiles) {
  std::vector<StrandedTile> stranded;
  for (auto tile = tiles.rbegin(); tile != tiles.rend(); ++tile) {
    Flow& flow = *tile->submission->flow;
    const absl::Status why = stop_reason_.ok() ? Bind(flow) : stop_reason_;
    if (why.ok()) {
      classes_[flow.device_class].queue.PutBack(*tile);
    } else {
      stranded.push_back({std::move(*tile), why});
    }
  }
  return stranded;
}

void TileScheduler::OnDeviceChanged(const Device& device) {
  std::vector<StrandedTile> stranded;
  {
    absl::MutexLock lock(&mutex_);
    stranded = UpdateSlot(device);
  }
  FinishStranded(stranded);
}

std::vector<TileScheduler::StrandedTile> TileScheduler::UpdateSlot(const Device& device) {
  slots_[device.slot()] = quarantine_.InSlot(device.slot());
  FairQueue& queue = classes_[device.device_class()].queue;
  std::vector<StrandedTile> stranded;
  for (Flow* flow : queue.flows()) {
    const absl::Status why = Bind(*flow);
    if (why.ok()) continue;
    std::vector<SubmittedTile> tiles;
    queue.Remove(*flow, tiles);
    for (SubmittedTile& tile : tiles) stranded.push_back({std::move(tile), why});
  }
  return stranded;
}

void TileScheduler::DropCancelled(Submission& submission) {
  std::vector<SubmittedTile> dropped;
  {
    absl::MutexLock lock(&mutex_);
    if (submission.flow == nullptr) return;  // nothing queued yet
    classes_[submission.flow->device_class].queue.Remove(submission, dropped);
  }
  if (!dropped.empty()) FinishDropped(dropped);
}

void TileScheduler::FinishDropped(const std::vector<SubmittedTile>& tiles) {
  if (observer_ != nullptr) observer_->OnDropped(tiles.size());
  for (const SubmittedTile& tile : tiles) Finish({&tile, 1}, tile.submission->cancel_status());
}

void TileScheduler::Finish(std::span<const SubmittedTile> tiles, const absl::Status& status) {
  for (const SubmittedTile& tile : tiles) {
    if (--tile.submission->unfinished == 0) tile.submission->registration.Reset();
  }
  for (const SubmittedTile& tile : tiles) tile.submission->done(tile.index, status);
}

void TileScheduler::FinishStranded(std::span<const StrandedTile> tiles) {
  for (const StrandedTile& stranded : tiles) Finish({&stranded.tile, 1}, stranded.why);
}

}  // namespace upscaled::server
