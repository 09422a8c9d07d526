#include "server/http/http_server.h"

#include <future>
#include <utility>

#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "server/http/http_session.h"
#include "server/http/protocol_choice.h"

namespace upscaled::server {

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                              ConnectionTable& table) {
  const std::string address = options.address;
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(options), table));
  RETURN_IF_ERROR(server->Listen(address));
  return server;
}

HttpServer::HttpServer(HttpServerOptions options, ConnectionTable& table)
    : tls_(options.tls),
      on_http2_(std::move(options.on_http2)),
      host_(options.limits, std::move(options.title), std::move(options.routes),
            std::move(options.guard), std::move(options.fault_answer), table) {
  host_.proxies = options.proxies;
  if (tls_ != nullptr) host_.handshakes = options.handshakes;
  host_.link = std::make_shared<IoThreadLink>(thread_);
  host_.bodies = options.budget != nullptr ? std::move(options.budget)
                                           : std::make_shared<BodyBudget>(BodyBudgetOptions());
}

absl::Status HttpServer::Listen(const std::string& address) {
  ASSIGN_OR_RETURN(
      listener_,
      Listener::Start({.address = address,
                       .on_accepted = [this](AcceptedConnection c) { Serve(std::move(c)); },
                       .make_room =
                           [this](Refusal refusal, const std::string& host) {
                             return host_.sessions.CloseLongestWaiting(
                                 refusal == Refusal::kConnectionsOfAddress
                                     ? std::optional<std::string_view>(host)
                                     : std::nullopt);
                           }},
                      thread_, host_.table));
  return absl::OkStatus();
}

bool HttpServer::AwaitAnswers(absl::Duration timeout) {
  if (listener_ != nullptr) listener_->Stop();
  StartDraining();
  const auto empty = std::make_shared<std::promise<void>>();
  thread_.RunAndWait([&] { host_.sessions.CloseIdle([empty] { empty->set_value(); }); });
  return empty->get_future().wait_for(absl::ToChronoNanoseconds(timeout)) ==
         std::future_status::ready;
}

void HttpServer::Close(absl::Duration timeout) {
  if (std::exchange(closed_, true)) return;
  AwaitAnswers(timeout);
  host_.link->Cut();
  thread_.RunAndWait([this] { host_.sessions.CloseAll(); });
}

void HttpServer::Serve(AcceptedConnection connection) {
  const auto serve_http1 = [this](AcceptedConnection http1) {
    StartHttpSession(host_, thread_.context(), std::move(http1),
                     tls_ == nullptr ? nullptr : tls_->context(TlsProtocol::kHttp1));
  };
  if (on_http2_ == nullptr) return serve_http1(std::move(connection));
  ChooseProtocol(host_, thread_.context(), tls_ == nullptr ? Transport::kPlain : Transport::kTls,
                 std::move(connection), serve_http1, on_http2_);
}

}  // namespace upscaled::server
