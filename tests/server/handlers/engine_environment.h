// The parts of a server that handlers work with, over the CPU and the bundled models.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/backends/backend_list.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/result_sharing.h"
#include "tests/support/gated_device.h"

namespace upscaled::server {

class EngineEnvironment {
 public:
  // With a gate (must outlive it), each tile is a run of its own and waits there.
  explicit EngineEnvironment(const Limits& limits = {}, test::Gate* gate = nullptr)
      : devices_({std::make_shared<Device>(CreateDevice(gate), 0, 0)}),
        admission_(limits, int64_t{1} << 30, Clock::Real()),
        scheduler_(
            quarantine_, Clock::Real(),
            gate == nullptr ? TileSchedulerOptions{} : TileSchedulerOptions{.max_batch_cost = 1}) {}

  HandlerEnvironment& handlers() { return handlers_; }
  AdmissionController& admission() { return admission_; }
  const TileScheduler& scheduler() const { return scheduler_; }

 private:
  static std::unique_ptr<Backend> CreateDevice(test::Gate* gate) {
    std::unique_ptr<Backend> cpu = *CreateBackend("cpu", {.threads = 2});
    if (gate == nullptr) return cpu;
    return std::make_unique<test::GatedDevice>("gated", std::move(cpu), *gate);
  }

  const DeviceList devices_;
  ModelCatalog catalog_ = *ModelCatalog::Create(*ModelRepository::Open({"engine/model/bundled"}),
                                                {.default_model = "general-2x"}, nullptr);
  Logger logger_{LogFormat::kText, LogLevel::kError};
  Timer timer_;
  DeviceSupervisor supervisor_{devices_, Clock::Real(), timer_, logger_, {}};
  AdmissionController admission_;
  DeviceQuarantine quarantine_{devices_};
  DeviceChooser chooser_{quarantine_, [this] { return scheduler_.work(); }};
  TileScheduler scheduler_;
  HandlerEnvironment handlers_{.catalog = catalog_,
                               .admission = admission_,
                               .chooser = chooser_,
                               .scheduler = scheduler_,
                               .quarantine = quarantine_,
                               .devices = supervisor_,
                               .sharing = &sharing_,
                               .clock = Clock::Real(),
                               .version = "test"};
  // Holds no source: images are computed as they come. Last: its computations use the others.
  ResultSharing sharing_{{.software = "test"}};
};

}  // namespace upscaled::server
