#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/thread.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace upscaled::server {
namespace {

constexpr int kTimeoutSeconds = 5;
constexpr int kMaxHeaderBytes = 16 * 1024;
constexpr int kMaxBodyBytes = 16 * 1024;

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
  return healthy ? Response{200, "OK", "ok\n"} : Response{503, "Service Unavailable", "not ok\n"};
}

struct Endpoint {
  std::string host;
  uint16_t port = 0;
};

// "host:port" or "[host]:port".
absl::StatusOr<Endpoint> ParseEndpoint(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is no host:port"));
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return Endpoint{std::move(host), static_cast<uint16_t>(port)};
}

// One thread and one event loop for all connections, so that a slow one holds up nobody.
class EventHttpServer final : public HttpServer {
 public:
  explicit EventHttpServer(HttpRoutes routes) : routes_(std::move(routes)) {}

  ~EventHttpServer() override {
    if (!thread_.joinable()) return;
    // As an event: a plain event_base_loopbreak is lost when the loop has not begun.
    const timeval now = {};
    event_base_once(
        base_.get(), -1, EV_TIMEOUT,
        [](evutil_socket_t, short, void* base) {
          event_base_loopbreak(static_cast<event_base*>(base));
        },
        base_.get(), &now);
    thread_.join();
  }

  absl::Status Listen(const std::string& address) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
    if (!endpoint.ok()) return endpoint.status();
    evthread_use_pthreads();  // before the first event_base; to be told to stop from here
    base_.reset(event_base_new());
    http_.reset(base_ == nullptr ? nullptr : evhttp_new(base_.get()));
    if (http_ == nullptr) return absl::UnavailableError("cannot set up an event loop for HTTP");
    evhttp_set_timeout(http_.get(), kTimeoutSeconds);
    evhttp_set_max_headers_size(http_.get(), kMaxHeaderBytes);
    evhttp_set_max_body_size(http_.get(), kMaxBodyBytes);
    evhttp_set_gencb(
        http_.get(),
        [](evhttp_request* request, void* self) {
          static_cast<const EventHttpServer*>(self)->Answer(request);
        },
        this);
    errno = 0;
    const evhttp_bound_socket* const socket =
        evhttp_bind_socket_with_handle(http_.get(), endpoint->host.c_str(), endpoint->port);
    if (socket == nullptr) {
      return absl::UnavailableError(
          absl::StrCat("cannot serve HTTP on ", address, ": ",
                       errno == 0 ? "no such address on this machine" : std::strerror(errno)));
    }
    port_ = PortOf(evhttp_bound_socket_get_fd(const_cast<evhttp_bound_socket*>(socket)));
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  struct Free {
    void operator()(event_base* base) const { event_base_free(base); }
    void operator()(evhttp* http) const { evhttp_free(http); }
  };

  static int PortOf(int socket) {
    sockaddr_storage address = {};
    socklen_t size = sizeof(address);
    if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
    return ntohs(address.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }

  void Run() {
    // Signals belong to the main thread; SIGPIPE, of clients that left, to nobody.
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    event_base_dispatch(base_.get());
  }

  void Answer(evhttp_request* request) const {
    const evhttp_cmd_type method = evhttp_request_get_command(request);
    const bool readable = method == EVHTTP_REQ_GET || method == EVHTTP_REQ_HEAD;
    const char* const path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(request));
    const Response response = readable ? Route(path == nullptr ? "" : path)
                                       : Response{405, "Method Not Allowed", "only GET and HEAD\n"};
    evkeyvalq* const headers = evhttp_request_get_output_headers(request);
    if (!readable) evhttp_add_header(headers, "Allow", "GET, HEAD");
    evhttp_add_header(headers, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    evhttp_add_header(headers, "Content-Length", absl::StrCat(response.body.size()).c_str());
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evbuffer* const body = evhttp_request_get_output_buffer(request);
    if (method != EVHTTP_REQ_HEAD) evbuffer_add(body, response.body.data(), response.body.size());
    evhttp_send_reply(request, response.status, response.reason, nullptr);
  }

  Response Route(std::string_view path) const {
    if (path == "/") return {200, "OK", kWelcome};
    if (path == "/metrics") return {200, "OK", routes_.metrics()};
    if (path == "/v2/health/live") return HealthResponse(routes_.live());
    if (path == "/v2/health/ready") return HealthResponse(routes_.ready());
    return {404, "Not Found", absl::StrCat("nothing here; there is\n\n", kWelcome)};
  }

  const HttpRoutes routes_;
  std::unique_ptr<event_base, Free> base_;
  std::unique_ptr<evhttp, Free> http_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                              HttpRoutes routes) {
  auto server = std::make_unique<EventHttpServer>(std::move(routes));
  if (absl::Status status = server->Listen(address); !status.ok()) return status;
  return server;
}

}  // namespace upscaled::server
