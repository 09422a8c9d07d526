#include "server/rest/json_answer.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "server/base/request_record.h"
#include "server/calls/call_steps.h"
#include "server/rest/json.h"
#include "server/rest/problem.h"
#include "server/rest/rest_host.h"

namespace upscaled::server {

HttpResponse AnswerWithJson(const CallEnvironment& calls, const HttpRequest& request,
                            const std::string& method,
                            const std::function<absl::StatusOr<std::string>()>& source) {
  const absl::Time start = calls.clock.Now();
  RequestRecord record{.transport = kHttpTransport, .method = method, .peer = request.peer};
  RecordTrace(calls, request.OnlyField(kTraceparent), start, record);
  RecordCaller(request.caller.get(), record);
  std::string json;
  const absl::Status status = GuardHandler(record, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(json, source());
    return absl::OkStatus();
  });
  CloseRecord(record, status, calls.clock.Now() - start);
  calls.on_finished(record);
  return status.ok() ? JsonResponse(std::move(json)) : ProblemResponse(status, "");
}

}  // namespace upscaled::server
