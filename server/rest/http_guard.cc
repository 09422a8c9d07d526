#include "server/rest/http_guard.h"

#include <optional>
#include <utility>

#include "server/handlers/call_steps.h"
#include "server/rest/problem.h"
#include "server/rest/rest_host.h"

namespace upscaled::server {
namespace {

constexpr int kUnauthorized = 401;

}  // namespace

HttpGuard MakeHttpGuard(const Authenticator* authenticator, const CallEnvironment& calls) {
  if (authenticator == nullptr) return nullptr;
  return [authenticator, &calls](const HttpRoute& route,
                                 HttpRequest& request) -> std::optional<HttpFault> {
    const Credentials credentials{.authorization = request.Field("Authorization"),
                                  .api_key = request.Field("X-API-Key"),
                                  .certificate_names = request.certificate_names.get()};
    const auto [status, caller] = authenticator->Authorize(credentials, request.peer, *route.role);
    if (status.ok()) {
      request.caller = caller;
      return std::nullopt;
    }
    RequestRecord record{.transport = kHttpTransport, .method = route.name, .peer = request.peer};
    NoteTrace(calls, request.OnlyField(kTraceparent), calls.clock.Now(), record);
    NoteCaller(caller.get(), record);
    CloseRecord(record, status, absl::ZeroDuration());
    calls.on_finished(record);
    HttpFault fault{HttpStatusOf(status), status};
    if (fault.status == kUnauthorized) fault.fields.push_back({"WWW-Authenticate", "Bearer"});
    return fault;
  };
}

}  // namespace upscaled::server
