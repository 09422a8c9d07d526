// From the types of the engine and the server to the messages of the contract.
#pragma once

#include <string>

#include "server/admission/limits.h"
#include "server/devices/device_supervisor.h"
#include "server/models/model_catalog.h"
#include "server/options/contract_values.h"
#include "server/proof/kernel_proofs.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

// Without the precisions and the times, which the devices decide.
upscale::v1::Model ToProto(const CatalogEntry& entry, bool is_default);
upscale::v1::RefusedModel ToProto(const RefusedModel& refused);
upscale::v1::Device ToProto(const DeviceState& state);
upscale::v1::KernelVerdict ToProto(const std::string& kernel, const KernelVerdict& verdict);
upscale::v1::Limits ToProto(const Limits& limits);

}  // namespace upscaled::server
