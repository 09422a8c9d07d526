// Chooses the devices of a request, and loads its networks on them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/model/precision.h"
#include "engine/model/repository.h"
#include "server/base/payer.h"
#include "server/base/throughput.h"
#include "server/devices/device.h"
#include "server/devices/device_executable.h"
#include "server/devices/device_quarantine.h"

namespace upscaled::server {

// Upper bound of a request's cost, in multiply-adds. Larger costs are clamped to it.
inline constexpr double kMaxCost = 1e17;

// The work of one device class, as reported by its scheduler.
struct DeviceClassWork {
  int64_t queued_cost = 0;  // multiply-adds
  bool idle = true;         // nothing is queued or running
  // How long tiles of each priority have been queued without a break.
  std::array<absl::Duration, kPriorities> backlogged = {};
  ThroughputMeter speed;         // of all that work
  ThroughputMeter stream_speed;  // of one stream
  int streams = 0;               // of the devices that work
};

// Binds every request to the device class with the earliest end for it: its image is of one
// arithmetic. Thread safe; must outlive its bindings.
class DeviceChooser {
 public:
  // The work of one request, in multiply-adds, counted as its device class's until destruction.
  // Thread compatible.
  class Binding {
   public:
    Binding() = default;
    Binding(Binding&& other) noexcept { *this = std::move(other); }
    Binding& operator=(Binding&& other) noexcept;
    ~Binding() { Release(); }
    void Release();
    void MoveTo(int device_class);

   private:
    friend class DeviceChooser;
    Binding(DeviceChooser* owner, int device_class, int64_t cost)
        : owner_(owner), device_class_(device_class), cost_(cost) {}
    DeviceChooser* owner_ = nullptr;
    int device_class_ = 0;
    int64_t cost_ = 0;
  };

  struct Choice {
    DeviceExecutables executables;  // one for each pass; the best device first
    Binding binding;                // to the device class of the first
  };

  // `quarantine` must outlive it. `work` tells the work of all device classes, in order; called
  // with no lock held.
  DeviceChooser(DeviceQuarantine& quarantine, std::function<std::vector<DeviceClassWork>()> work);

  // A request's networks on all working devices able to run them, bound to the device class with
  // the earliest end for `pixels` of the source (0: unknown), by the work bound to each and by its
  // speed so far. Loads the missing ones, and waits for others' loads until `cancellation` (may be
  // null). A device with a failure here goes into quarantine. UNAVAILABLE (kDeviceFailure) when no
  // device works; otherwise as ModelCache::Get. Nothing for no passes.
  absl::StatusOr<Choice> Load(std::span<const ModelPass> passes, Precision precision,
                              int64_t pixels, Cancellation* cancellation = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // By device class, until all is done, with so much more work.
  std::vector<absl::Duration> TimesFor(int64_t cost) const ABSL_LOCKS_EXCLUDED(mutex_);
  void AddCost(int device_class, int64_t cost) ABSL_LOCKS_EXCLUDED(mutex_);

  DeviceQuarantine& quarantine_;
  const std::function<std::vector<DeviceClassWork>()> work_;
  mutable absl::Mutex mutex_;
  // Counts of open requests by device class.
  std::vector<int64_t> bound_cost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace upscaled::server
