// A backend with streams that stop in every run until the test lets them go on.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/backends/backend.h"
#include "server/devices/device.h"
#include "server/devices/device_executable.h"
#include "tests/support/fake_executable.h"

namespace upscaled::server {

using test::FakeExecutable;

// A tile with a name (its x) and an area of `pixels`, with a cost of a multiply-add each.
inline TileTask NamedTile(int name, int pixels = 1) {
  TileTask task;
  task.plan = std::make_shared<const TilePlan>(
      TilePlan{.tile = {name, 0, pixels, 1}, .pass_costs = {pixels}});
  return task;
}

class GatedBackend : public Backend {
 public:
  struct Run {
    const Executable* executable = nullptr;
    std::vector<int> tiles;  // by name
  };
  using Outcome = std::function<absl::Status()>;

  explicit GatedBackend(int streams, std::string name = "gated", std::string make = "for tests")
      : streams_(streams), name_(std::move(name)), make_(std::move(make)) {}

  std::string_view name() const override { return name_; }
  std::string description() const override { return make_; }
  absl::StatusOr<std::shared_ptr<const Executable>> Compile(const Network&, Precision) override {
    return std::make_shared<FakeExecutable>();
  }
  int StreamCount() const override { return streams_; }
  std::unique_ptr<Stream> CreateStream() override { return std::make_unique<GatedStream>(*this); }
  void GiveUp() override {
    absl::MutexLock lock(&mutex_);
    given_up_ = true;
  }
  bool given_up() {
    absl::MutexLock lock(&mutex_);
    return given_up_;
  }

  // Waits until `count` runs have started in all, and returns them in order of their start.
  std::vector<Run> AwaitStarted(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto started = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return runs_.size() >= count; };
    mutex_.Await(absl::Condition(&started));
    return runs_;
  }

  // Lets one run end, the present or a coming one, with the outcome.
  void Release(Outcome outcome = [] { return absl::OkStatus(); }) {
    absl::MutexLock lock(&mutex_);
    permits_.push_back(std::move(outcome));
  }

  // The claimed time of others on runs with an end from now on.
  void set_helped(absl::Duration helped) {
    absl::MutexLock lock(&mutex_);
    helped_ = helped;
  }

  // Lets all runs end by themselves from now on.
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }

 private:
  class GatedStream : public Stream {
   public:
    explicit GatedStream(GatedBackend& owner) : owner_(owner) {}
    absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override {
      return owner_.Pass(executable, tiles);
    }
    absl::Duration HelpedTime() const override {
      absl::MutexLock lock(&owner_.mutex_);
      return owner_.helped_;
    }

   private:
    GatedBackend& owner_;
  };

  absl::Status Pass(const Executable& executable, std::span<const TileTask> tiles) {
    GatedBackend::Run run{&executable, {}};
    for (const TileTask& task : tiles) run.tiles.push_back(task.plan->tile.x);
    Outcome outcome = [] { return absl::OkStatus(); };
    {
      absl::MutexLock lock(&mutex_);
      runs_.push_back(std::move(run));
      const auto may_end = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return open_ || !permits_.empty();
      };
      mutex_.Await(absl::Condition(&may_end));
      if (!permits_.empty()) {
        outcome = std::move(permits_.front());
        permits_.pop_front();
      }
    }
    return outcome();
  }

  const int streams_;
  const std::string name_;
  const std::string make_;
  absl::Mutex mutex_;
  std::vector<Run> runs_ ABSL_GUARDED_BY(mutex_);
  std::deque<Outcome> permits_ ABSL_GUARDED_BY(mutex_);
  bool open_ ABSL_GUARDED_BY(mutex_) = false, given_up_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration helped_ ABSL_GUARDED_BY(mutex_);
};

// A device of the server, and the backend in it.
struct GatedDevice {
  explicit GatedDevice(int streams, std::string name = "gated", int slot = 0, int device_class = 0)
      : device(std::make_shared<Device>(std::make_unique<GatedBackend>(streams, std::move(name)),
                                        slot, device_class)),
        backend(static_cast<GatedBackend&>(device->backend())) {}

  std::shared_ptr<Device> device;
  GatedBackend& backend;
};

// A network on all of them, as one of its own on each.
inline std::shared_ptr<const DeviceExecutable> NetworkOn(const DeviceList& devices) {
  std::vector<DeviceExecutable::Part> parts;
  for (const auto& device : devices) parts.push_back({device, std::make_shared<FakeExecutable>()});
  return std::make_shared<DeviceExecutable>(std::move(parts));
}

}  // namespace upscaled::server
