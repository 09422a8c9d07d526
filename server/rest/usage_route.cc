#include "server/rest/usage_route.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "proto/json/message_json.h"
#include "server/calls/call_steps.h"
#include "server/handlers/usage_handler.h"
#include "server/rest/form.h"
#include "server/rest/json_answer.h"
#include "server/rest/problem.h"
#include "upscale/v1/admin.pb.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr char kMethod[] = "GetUsage";
constexpr size_t kMaxShownNameBytes = 64;

// The field of the request in a query's name; null: no such field.
std::string* FilterOf(const std::string& name, pb::GetUsageRequest& request) {
  if (name == "first_day") return request.mutable_first_day();
  if (name == "last_day") return request.mutable_last_day();
  if (name == "tenant") return request.mutable_tenant();
  return nullptr;
}

absl::StatusOr<pb::GetUsageRequest> ParseFilters(std::string_view query) {
  ASSIGN_OR_RETURN(const std::vector<FormField> fields, ParseQuery(query));
  pb::GetUsageRequest request;
  for (const FormField& field : fields) {
    std::string* const filter = FilterOf(field.name, request);
    if (filter == nullptr || !filter->empty()) {
      return InvalidForm(absl::StrCat(filter == nullptr ? "there is no filter \"" : "twice \"",
                                      field.name.substr(0, kMaxShownNameBytes),
                                      "\"; there are first_day, last_day, tenant"));
    }
    *filter = field.value.value_or("");
  }
  return request;
}

absl::StatusOr<std::string> UsageJson(const HandlerEnvironment& handlers, std::string_view query) {
  ASSIGN_OR_RETURN(const pb::GetUsageRequest request, ParseFilters(query));
  pb::GetUsageResponse response;
  RETURN_IF_ERROR(GetUsage(handlers, absl::Now(), request, response));
  return MessageToJson(response);
}

}  // namespace

HttpRoute UsageRoute(const HandlerEnvironment& handlers, const CallEnvironment& calls) {
  const auto answer = [&handlers, &calls](const HttpRequest& request,
                                          std::unique_ptr<HttpResponseWriter> writer) {
    // The disk is asked on a worker.
    const std::shared_ptr<HttpResponseWriter> shared = std::move(writer);
    const bool runs = calls.workers.Run([&handlers, &calls, request, shared] {
      shared->Send(AnswerWithJson(calls, request, kMethod,
                                  [&] { return UsageJson(handlers, request.query); }));
    });
    if (!runs) shared->Send(ProblemResponse(OutOfThreads(), ""));
  };
  return {.method = "GET",
          .path = "/v1/usage",
          .description = "what tenants used, day by day",
          .handler = answer,
          .role = Role::kAdmin,
          .name = kMethod};
}

}  // namespace upscaled::server
