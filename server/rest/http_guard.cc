#include "server/rest/http_guard.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "server/calls/call_steps.h"
#include "server/rest/problem.h"
#include "server/rest/rest_host.h"

namespace upscaled::server {
namespace {

constexpr int kUnauthorized = 401;

Authorization AuthorizeKey(const Authenticator& authenticator, const HttpRequest& request,
                           Role role) {
  const Credentials credentials{
      .authorization = request.Field("Authorization"),
      .api_key = request.Field("X-API-Key"),
      .certificate_names = request.certificate_names.get(),
      .repeats = request.Count("Authorization") > 1 || request.Count("X-API-Key") > 1};
  return authenticator.Authorize(credentials, request.peer, role);
}

// Leaves the options as the request's query. The signer has its tenant's limits.
Authorization AuthorizeSignature(const UrlKeys& url_keys, const Authenticator* authenticator,
                                 HttpRequest& request) {
  const std::shared_ptr<const UrlKeyTable> keys = url_keys.get();
  const absl::StatusOr<SignedUrl> url =
      CheckSignedUrl(*keys, request.sent_path, request.query, absl::Now());
  if (!url.ok()) return {url.status()};
  auto signer = std::make_shared<Principal>(*url->signer);
  if (authenticator != nullptr) signer->limits = authenticator->LimitsOfTenant(signer->tenant);
  request.signed_until = url->expires;
  request.query = std::string(url->options);
  return {.caller = std::move(signer)};
}

}  // namespace

HttpGuard MakeHttpGuard(const Authenticator* authenticator, const UrlKeys* url_keys,
                        const CallEnvironment& calls) {
  if (authenticator == nullptr && url_keys == nullptr) return nullptr;
  return [authenticator, url_keys, &calls](const HttpRoute& route,
                                           HttpRequest& request) -> std::optional<HttpFault> {
    const bool is_signed =
        url_keys != nullptr && route.takes_signed_urls && HasUrlSignature(request.query);
    if (!is_signed && authenticator == nullptr) return std::nullopt;
    const auto [status, caller] = is_signed ? AuthorizeSignature(*url_keys, authenticator, request)
                                            : AuthorizeKey(*authenticator, request, *route.role);
    if (status.ok()) {
      request.caller = caller;
      return std::nullopt;
    }
    RequestRecord record{.transport = kHttpTransport, .method = route.name, .peer = request.peer};
    RecordTrace(calls, request.OnlyField(kTraceparent), calls.clock.Now(), record);
    RecordCaller(caller.get(), record);
    CloseRecord(record, status, absl::ZeroDuration());
    calls.on_finished(record);
    HttpFault fault{HttpStatusOf(status), status};
    if (fault.status == kUnauthorized) fault.fields.push_back({"WWW-Authenticate", "Bearer"});
    return fault;
  };
}

}  // namespace upscaled::server
