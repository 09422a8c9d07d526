// What the handlers of all methods work with.
#pragma once

#include <cstdint>
#include <string>

#include "engine/backends/backend.h"
#include "engine/base/clock.h"
#include "engine/model/precision.h"
#include "server/admission/admission.h"
#include "server/batching/tile_scheduler.h"
#include "server/models/model_cache.h"
#include "server/models/model_catalog.h"

namespace upscaled::server {

// Everything outlives the handlers.
struct HandlerEnvironment {
  ModelCatalog& catalog;
  ModelCache& models;
  AdmissionController& admission;
  TileScheduler& scheduler;
  const Backend& backend;
  const Clock& clock;
  Precision default_precision;
  std::string version;
};

// Scratch memory that the device's streams come to hold for tiles of `executable` up to this size,
// either way up.
int64_t ScratchBytes(const HandlerEnvironment& environment, const Executable& executable,
                     Size tile);

}  // namespace upscaled::server
