// A device with runs at the test's word.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/backends/backend.h"
#include "engine/backends/backend_list.h"

namespace upscaled::test {

// Runs pass while it is open, else one by one as they are allowed. Thread safe.
class Gate {
 public:
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  void Close() {
    absl::MutexLock lock(&mutex_);
    open_ = false;
  }
  void Allow(int runs) {
    absl::MutexLock lock(&mutex_);
    allowed_ += runs;
  }
  // Every later run fails with `status`; OK to stop this.
  void Fail(absl::Status status) {
    absl::MutexLock lock(&mutex_);
    failure_ = std::move(status);
  }
  // Waits until `count` runs stand before the gate.
  void AwaitWaiting(int count) {
    absl::MutexLock lock(&mutex_);
    const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_ >= count; };
    mutex_.Await(absl::Condition(&there));
  }
  int64_t tiles_passed() const {
    absl::MutexLock lock(&mutex_);
    return tiles_passed_;
  }

  absl::Status Pass(size_t tiles) {
    absl::MutexLock lock(&mutex_);
    ++waiting_;
    const auto may_pass = [&]()
                              ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return open_ || allowed_ > 0; };
    mutex_.Await(absl::Condition(&may_pass));
    --waiting_;
    if (!open_) --allowed_;
    tiles_passed_ += static_cast<int64_t>(tiles);
    return failure_;
  }

 private:
  mutable absl::Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  int allowed_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t tiles_passed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

// A real device behind a gate. The gate must outlive it.
class GatedDevice final : public Backend {
 public:
  GatedDevice(std::string name, std::unique_ptr<Backend> device, Gate& gate)
      : name_(std::move(name)), device_(std::move(device)), gate_(gate) {}

  std::string_view name() const override { return name_; }
  std::string description() const override { return device_->description(); }
  absl::Status CheckPrecision(Precision precision) const override {
    return device_->CheckPrecision(precision);
  }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network& network,
                                                            Precision precision) override {
    return device_->Compile(network, precision);
  }
  absl::StatusOr<MemoryNeed> PlanMemory(const Network& network,
                                        Precision precision) const override {
    return device_->PlanMemory(network, precision);
  }
  std::unique_ptr<Stream> CreateStream() override {
    return std::make_unique<GatedStream>(device_->CreateStream(), gate_);
  }
  int StreamCount() const override { return device_->StreamCount(); }

 private:
  class GatedStream final : public Stream {
   public:
    GatedStream(std::unique_ptr<Stream> stream, Gate& gate)
        : stream_(std::move(stream)), gate_(gate) {}
    absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override {
      if (absl::Status status = gate_.Pass(tiles.size()); !status.ok()) return status;
      return stream_->Run(executable, tiles);
    }

   private:
    std::unique_ptr<Stream> stream_;
    Gate& gate_;
  };

  const std::string name_;
  const std::unique_ptr<Backend> device_;
  Gate& gate_;
};

}  // namespace upscaled::test
