// ListModels, GetModel and GetServerInfo answer from memory; ReloadModels reads the models again.
#pragma once

#include "absl/status/status.h"
#include "server/base/request_record.h"
#include "server/handlers/handler_environment.h"
#include "upscale/v1/admin.pb.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {

upscale::v1::ListModelsResponse ListModels(const HandlerEnvironment& environment);

absl::Status GetModel(const HandlerEnvironment& environment,
                      const upscale::v1::GetModelRequest& request,
                      upscale::v1::GetModelResponse& response);

// The error names models, not their files; `record` gets the message with the files. ABORTED:
// another reload is running.
absl::Status ReloadModels(const HandlerEnvironment& environment, RequestRecord& record,
                          upscale::v1::ReloadModelsResponse& response);
// In the caller's turn.
absl::Status ReloadModels(const HandlerEnvironment& environment, const ModelCatalog::Turn& turn,
                          RequestRecord& record, upscale::v1::ReloadModelsResponse& response);

// Whether there is anything to compute on.
bool AnyDeviceWorks(const HandlerEnvironment& environment);

upscale::v1::GetServerInfoResponse GetServerInfo(const HandlerEnvironment& environment);

}  // namespace upscaled::server
