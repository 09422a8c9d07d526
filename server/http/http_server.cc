#include "server/http/http_server.h"

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "civetweb.h"

namespace upscaled::server {
namespace {

constexpr char kWelcome[] =
    "upscaled: image upscaling over gRPC (upscale.v1.UpscaleService, on another port).\n"
    "\n"
    "/v2/health/live   200 while the process works\n"
    "/v2/health/ready  200 while it takes requests, 503 before warm-up and while draining\n"
    "/metrics          Prometheus metrics\n";

struct Response {
  int status = 200;
  const char* reason = "OK";
  std::string body;
};

Response HealthResponse(bool healthy) {
  return healthy ? Response{200, "OK", "ok\n"}
                 : Response{503, "Service Unavailable", "not ready\n"};
}

class CivetHttpServer final : public HttpServer {
 public:
  explicit CivetHttpServer(HttpRoutes routes) : routes_(std::move(routes)) {}
  // Waits for the requests that are being answered.
  ~CivetHttpServer() override {
    if (context_ != nullptr) mg_stop(context_);
  }

  absl::Status Listen(const std::string& address) {
    mg_callbacks callbacks = {};
    callbacks.begin_request = [](mg_connection* connection) {
      const auto* self =
          static_cast<const CivetHttpServer*>(mg_get_user_data(mg_get_context(connection)));
      return self->Answer(connection);
    };
    // Civetweb would write to stderr, past our log.
    callbacks.log_message = [](const mg_connection*, const char*) { return 1; };
    const std::pair<const char*, const char*> settings[] = {
        {"listening_ports", address.c_str()}, {"num_threads", "4"},
        {"connection_queue", "16"},           {"listen_backlog", "16"},
        {"request_timeout_ms", "5000"},       {"enable_keep_alive", "no"}};
    std::vector<const char*> options;
    for (const auto& [name, value] : settings) options.insert(options.end(), {name, value});
    options.push_back(nullptr);
    std::array<char, 256> error_text = {};
    mg_error_data error = {.text = error_text.data(), .text_buffer_size = error_text.size()};
    mg_init_data init = {&callbacks, this, options.data()};
    context_ = mg_start2(&init, &error);
    if (context_ == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("cannot serve HTTP on ", address, ": ", error_text.data()));
    }
    return absl::OkStatus();
  }

  int port() const override {
    mg_server_port port = {};
    return mg_get_server_ports(context_, 1, &port) == 1 ? port.port : 0;
  }

 private:
  int Answer(mg_connection* connection) const {
    const mg_request_info* const request = mg_get_request_info(connection);
    const std::string_view method = request->request_method;
    Response response = method == "GET" || method == "HEAD"
                            ? Route(request->local_uri)
                            : Response{405, "Method Not Allowed", "only GET and HEAD\n"};
    const std::string head = absl::StrCat(
        "HTTP/1.1 ", response.status, " ", response.reason,
        "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ",
        response.body.size(), response.status == 405 ? "\r\nAllow: GET, HEAD" : "",
        "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
    mg_write(connection, head.data(), head.size());
    if (method != "HEAD") mg_write(connection, response.body.data(), response.body.size());
    return response.status;
  }

  Response Route(std::string_view path) const {
    if (path == "/") return {200, "OK", kWelcome};
    if (path == "/metrics") return {200, "OK", routes_.metrics()};
    if (path == "/v2/health/live") return HealthResponse(routes_.live());
    if (path == "/v2/health/ready") return HealthResponse(routes_.ready());
    return {404, "Not Found", absl::StrCat("nothing here; there is\n\n", kWelcome)};
  }

  const HttpRoutes routes_;
  mg_context* context_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              HttpRoutes routes) {
  auto server = std::make_unique<CivetHttpServer>(std::move(routes));
  if (absl::Status status = server->Listen(address); !status.ok()) return status;
  return server;
}

}  // namespace upscaled::server
