// The first run of a device.
#pragma once

#include "absl/status/status.h"
#include "server/devices/device.h"
#include "server/models/model_catalog.h"

namespace upscaled::server {

// The native scale's variant without denoising, or with the minimum there is.
const ModelVariant& WarmVariant(const ModelCard& card);

// Upscales a small image on a stream of its own, in the model's default precision or, if this
// device lacks it, in kExact. The error names the model and the device.
absl::Status WarmUpDevice(Device& device, const CatalogEntry& model);

}  // namespace upscaled::server
