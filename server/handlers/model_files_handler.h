// Models' files, in and out, for operators.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "server/base/request_record.h"
#include "server/handlers/handler_environment.h"
#include "upscale/v1/admin.pb.h"

namespace upscaled::server {

// `read` gives the call's next message; false: there are no more. Errors as in the contract,
// without the place of the server's models. `record` gets the message with it.
absl::Status AddModel(const HandlerEnvironment& environment, RequestRecord& record,
                      absl::FunctionRef<bool(upscale::v1::AddModelRequest&)> read,
                      upscale::v1::AddModelResponse& response);

// `write` takes the answer's next message; false: the client has gone.
absl::Status ExportModel(const HandlerEnvironment& environment,
                         const upscale::v1::ExportModelRequest& request,
                         absl::FunctionRef<bool(const upscale::v1::ExportModelResponse&)> write);

}  // namespace upscaled::server
