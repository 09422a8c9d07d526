#include "server/rest/info_routes.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"
#include "proto/json/message_json.h"
#include "server/handlers/info_handlers.h"
#include "server/rest/json_answer.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// The answer's message as JSON.
using JsonSource = std::function<absl::StatusOr<std::string>(const HttpRequest&)>;

// A route logged and counted as its method of the contract.
HttpRoute InfoRoute(RestHost& host, std::string path, std::string description, std::string method,
                    JsonSource source) {
  const std::string name = method;
  return {.method = "GET",
          .path = std::move(path),
          .description = std::move(description),
          .handler =
              [&host, method = std::move(method), source = std::move(source)](
                  const HttpRequest& request, std::unique_ptr<HttpResponseWriter> writer) {
                HttpResponse response =
                    AnswerWithJson(host.calls, request, method, [&] { return source(request); });
                for (HttpField& field : host.cors.Fields(request)) {
                  response.fields.push_back(std::move(field));
                }
                writer->Send(std::move(response));
              },
          .role = Role::kRead,
          .name = name};
}

}  // namespace

std::vector<HttpRoute> InfoRoutes(RestHost& host) {
  const HandlerEnvironment& handlers = host.handlers;
  return {
      InfoRoute(host, "/v1/models", "the models on offer", "ListModels",
                [&handlers](const HttpRequest&) { return MessageToJson(ListModels(handlers)); }),
      InfoRoute(host, "/v1/models/{name}", "one model", "GetModel",
                [&handlers](const HttpRequest& request) -> absl::StatusOr<std::string> {
                  pb::GetModelRequest wanted;
                  wanted.set_name(request.parameter);
                  pb::GetModelResponse response;
                  RETURN_IF_ERROR(GetModel(handlers, wanted, response));
                  return MessageToJson(response);
                }),
      InfoRoute(host, "/v1/info", "version, devices, limits and formats", "GetServerInfo",
                [&handlers](const HttpRequest&) { return MessageToJson(GetServerInfo(handlers)); }),
  };
}

}  // namespace upscaled::server
