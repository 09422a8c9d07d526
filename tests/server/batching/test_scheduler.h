// A tile scheduler with the quarantine of its devices.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "engine/base/clock.h"
#include "server/base/payers.h"
#include "server/batching/request_flow.h"
#include "server/batching/tile_observer.h"
#include "server/batching/tile_scheduler.h"
#include "server/devices/device.h"
#include "server/devices/device_executable.h"
#include "server/devices/device_quarantine.h"

namespace upscaled::server {

// Constructed before its scheduler.
class QuarantineHolder {
 protected:
  QuarantineHolder(const DeviceList& devices, DeviceQuarantine::Listener listener)
      : held_quarantine_(devices, std::move(listener)) {}
  DeviceQuarantine held_quarantine_;
};

class TestScheduler : private QuarantineHolder, public TileScheduler {
 public:
  // `on_failed` (may be null) is called with failing devices.
  TestScheduler(const DeviceList& devices, const Clock& clock,
                const TileSchedulerOptions& options = {}, TileObserver* observer = nullptr,
                DeviceQuarantine::Listener on_failed = nullptr)
      : QuarantineHolder(devices,
                         [this, on_failed](const Device& device, const absl::Status& fault) {
                           if (on_failed && !fault.ok()) on_failed(device, fault);
                           OnDeviceChanged(device);
                         }),
        TileScheduler(held_quarantine_, clock, options, observer) {}

  DeviceQuarantine& quarantine() { return held_quarantine_; }

  // Takes tiles of these networks, all on the same devices.
  RequestFlow OpenFlow(DeviceExecutables networks, Payer payer = {},
                       const std::shared_ptr<Payers>& payers = nullptr) {
    RequestFlow flow = TileScheduler::OpenFlow(std::move(payer), nullptr, payers);
    flow.Adopt({.executables = std::move(networks)});
    return flow;
  }
};

}  // namespace upscaled::server
