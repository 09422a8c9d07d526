// The parts of the server for handlers.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/base/cancellation.h"
#include "engine/base/clock.h"
#include "engine/image/codec.h"
#include "server/admission/admission.h"
#include "server/base/decode_account.h"
#include "server/batching/tile_scheduler.h"
#include "server/devices/device_chooser.h"
#include "server/devices/device_quarantine.h"
#include "server/devices/device_supervisor.h"
#include "server/models/model_catalog.h"
#include "server/proof/kernel_proofs.h"

namespace upscaled::server {

class ResultSharing;
class UsageLedger;

// As ImageOpener, at the expense of an account.
using ChargedImageOpener = std::function<absl::StatusOr<std::unique_ptr<ImageDecoder>>(
    const ImageHeader& header, ByteSource& source, const DecodeLimits& limits,
    Cancellation* cancellation, const DecodeAccount& account)>;

// Everything outlives the handlers.
struct HandlerEnvironment {
  ModelCatalog& catalog;
  AdmissionController& admission;
  DeviceChooser& chooser;
  TileScheduler& scheduler;
  const DeviceQuarantine& quarantine;
  const DeviceSupervisor& devices;
  ChargedImageOpener open_image;            // null: in this process
  ResultSharing* sharing = nullptr;         // never null while calls are served
  UsageLedger* usage = nullptr;             // null: none is kept
  std::filesystem::path model_folder = {};  // where AddModel puts files; empty: nowhere
  std::shared_ptr<const KernelProofs> proofs = nullptr;  // null: no kernel proves itself
  const Clock& clock;
  std::string version;
};

}  // namespace upscaled::server
