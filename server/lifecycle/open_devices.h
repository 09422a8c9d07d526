// From settings to devices and models.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/autotune/tuner.h"
#include "engine/backends/backend_list.h"
#include "server/config/config.h"
#include "server/devices/device.h"
#include "server/devices/device_supervisor.h"
#include "server/models/model_catalog.h"
#include "server/proof/kernel_proofs.h"
#include "server/telemetry/logger.h"

namespace upscaled::server {

// Errors name the faulty setting. `logger` must outlive the devices.

// Null: kernels as shipped.
absl::StatusOr<std::shared_ptr<Tuner>> OpenTuner(const ServerConfig& config, Logger& logger);

// Verdicts lie next to --tune-file. Without it only kernels with a run on a device of ours serve.
std::shared_ptr<KernelProofs> OpenKernelProofs(const ServerConfig& config, Logger& logger);
// Kernels for a device in addition to the shipped ones. Kernels without a verdict prove themselves
// first.
std::vector<std::string> ProvenKernels(KernelProofs& proofs, const std::string& device);

// Opens the devices of --device. Logs the candidates of "auto".
absl::StatusOr<DeviceList> OpenDevices(const ServerConfig& config, const BackendFactory& create,
                                       Logger& logger);

// The models of the repositories, each with a precision for `devices`.
absl::StatusOr<ModelCatalog> OpenModels(const ServerConfig& config, const DeviceList& devices,
                                        Logger& logger);

}  // namespace upscaled::server
