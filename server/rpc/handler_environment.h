// What the handlers of all methods work with.
#pragma once

#include <cstddef>
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
  const ModelCatalog& catalog;
  ModelCache& models;
  AdmissionController& admission;
  TileScheduler& scheduler;
  const Backend& backend;
  const Clock& clock;
  Precision default_precision;
  // What the queues of these calls may hold.
  size_t image_stream_bytes;
  size_t tiles_stream_bytes;
  std::string version;
};

}  // namespace upscaled::server
