// The parts of a server that handlers work with, over the CPU and the bundled models.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/backends/backend_list.h"
#include "server/handlers/handler_environment.h"
#include "server/handlers/result_sharing.h"

namespace upscaled::server {

class EngineEnvironment {
 public:
  explicit EngineEnvironment(const Limits& limits = {})
      : admission_(limits, int64_t{1} << 30, Clock::Real()) {}

  HandlerEnvironment& handlers() { return handlers_; }
  AdmissionController& admission() { return admission_; }

 private:
  const DeviceList devices_ = {
      std::make_shared<Device>(*CreateBackend("cpu", {.threads = 2}), 0, 0)};
  ModelCatalog catalog_ = *ModelCatalog::Create(*ModelRepository::Open({"engine/model/bundled"}),
                                                {.default_model = "general-2x"}, nullptr);
  Logger logger_{LogFormat::kText, LogLevel::kError};
  Timer timer_;
  DeviceSupervisor supervisor_{devices_, Clock::Real(), timer_, logger_, {}};
  AdmissionController admission_;
  DeviceQuarantine quarantine_{devices_};
  DeviceChooser chooser_{quarantine_, [this] { return scheduler_.work(); }};
  TileScheduler scheduler_{quarantine_, Clock::Real()};
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
