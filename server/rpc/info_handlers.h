// ListModels, GetModel and GetServerInfo: answers from memory.
#pragma once

#include "absl/status/status.h"
#include "server/rpc/handler_environment.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

upscale::v1::ListModelsResponse ListModels(const HandlerEnvironment& environment);

absl::Status GetModel(const HandlerEnvironment& environment,
                      const upscale::v1::GetModelRequest& request,
                      upscale::v1::GetModelResponse& response);

upscale::v1::GetServerInfoResponse GetServerInfo(const HandlerEnvironment& environment);

}  // namespace upscaled::server
