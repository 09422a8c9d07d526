// Server's ports: their opening, and their parts.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "engine/base/unnamed_file.h"
#include "server/base/endpoint.h"
#include "server/base/spool_folder.h"
#include "server/http/own_host.h"
#include "server/lifecycle/part_options.h"
#include "server/lifecycle/server.h"
#include "server/rest/http_guard.h"
#include "server/rest/usage_route.h"

namespace upscaled::server {
namespace {

constexpr char kHttpTitle[] = "upscaled: image upscaling.";
constexpr char kAdminTitle[] = "upscaled: the operators' port.";

// `address` with its actual port.
std::string WithPort(const std::string& address, int port) {
  Endpoint endpoint = *ParseEndpoint(address);
  endpoint.port = port;
  return FormatEndpoint(endpoint);
}

// Threads for relaying gRPC connections: each moves gigabytes a second.
int RelayThreads() {
  constexpr int kCoresPerThread = 8, kMaxThreads = 8;
  return std::clamp(AvailableCpuCount() / kCoresPerThread, 1, kMaxThreads);
}

// Gives connections to gRPC. It knows only their descriptors.
std::function<void(UniqueFd, const PeerAddress&)> HandTo(ConnectionIntake& grpc, PeerNames& peers) {
  return [&grpc, &peers](UniqueFd socket, const PeerAddress& peer) {
    grpc.Add(peers.Add(std::move(socket), peer));
  };
}

}  // namespace

absl::Status Server::OpenPorts() {
  ASSIGN_OR_RETURN(const BodyBudgetOptions bodies, FindBodyBudget());
  spool_.emplace(bodies, timer_);
  RETURN_IF_ERROR(OpenGrpcPort());
  if (!config_.http.empty()) RETURN_IF_ERROR(OpenHttpPort());
  if (!config_.admin.empty()) RETURN_IF_ERROR(OpenAdminPort());
  const std::string grpc_address = WithPort(config_.listen, grpc_port());
  const std::string http_address = http_ == nullptr ? "" : WithPort(config_.http, http_port());
  const std::string admin_address = admin_ == nullptr ? "" : WithPort(config_.admin, admin_port());
  const LogField fields[] = {
      {"grpc", grpc_address}, {"http", http_address}, {"admin", admin_address}};
  logger_.Log(LogLevel::kInfo, "listening", fields);
  return absl::OkStatus();
}

absl::StatusOr<BodyBudgetOptions> Server::FindBodyBudget() {
  BodyBudgetOptions options{
      .spool_dir = config_.spool_dir.empty() ? SpoolFolder() : config_.spool_dir.string(),
      .spool_bytes = static_cast<size_t>(config_.spool_bytes)};
  if (options.spool_bytes == 0) return options;
  const absl::Status usable = OpenUnnamedFile(options.spool_dir).status();
  if (usable.ok()) return options;
  const std::string reason =
      absl::StrCat("cannot make a file in ", options.spool_dir, " (spool-dir): ", usable.message());
  if (!config_.spool_dir.empty()) return absl::Status(usable.code(), reason);
  const LogField fields[] = {{"reason", reason}};
  logger_.Log(LogLevel::kWarning, "bodies of slow clients are kept in memory only", fields);
  options.spool_bytes = 0;
  return options;
}

absl::Status Server::OpenGrpcPort() {
  RETURN_IF_ERROR(grpc_->Start(spool_->budget()));
  Http2PortOptions options{
      .address = config_.listen,
      .tls = tls_.get(),
      .handshakes = handshakes_.get(),
      .stall_timeout = config_.stall_timeout,
      .threads = RelayThreads(),
      .is_proxy = [this](const PeerAddress& peer) { return proxies_.Trusts(peer); }};
  options.on_connection = HandTo(grpc_->intake(), peers_);
  options.on_offence = [this](const PeerAddress& peer, Offence offence) {
    offences_.OnOffence({{"peer", peer.name}, {"reason", OffenceName(offence)}});
  };
  ASSIGN_OR_RETURN(grpc_port_, Http2Port::Start(std::move(options), grpc_connections_));
  return absl::OkStatus();
}

absl::Status Server::OpenHttpPort() {
  ASSIGN_OR_RETURN(FetchOptions fetch, ToFetchOptions(config_));
  rest_ = std::make_unique<RestService>(handlers_, calls_,
                                        RestOptions{.web = config_.web,
                                                    .cors_origins = config_.cors_origins,
                                                    .fetch = std::move(fetch),
                                                    .jobs = jobs_.get(),
                                                    .signed_urls = url_keys_ != nullptr,
                                                    .signed_max_age = config_.url_max_age});
  HttpServerOptions options{.address = config_.http,
                            .title = kHttpTitle,
                            .routes = rest_->Routes(),
                            .guard = MakeHttpGuard(authenticator_.get(), url_keys_.get(), calls_),
                            .fault_answer = rest_->FaultAnswer(),
                            .proxies = &proxies_,
                            .limits = {.stall_timeout = config_.stall_timeout,
                                       .min_progress_bytes = MinProgressBytes(config_)},
                            .budget = spool_->budget(),
                            .tls = tls_.get(),
                            .handshakes = handshakes_.get()};
  for (HttpRoute& route : HealthRoutes(HealthTexts())) options.routes.push_back(std::move(route));
  ASSIGN_OR_RETURN(http_, HttpServer::Start(std::move(options), http_connections_));
  return absl::OkStatus();
}

absl::Status Server::OpenAdminPort() {
  // Probes, scrapers and operators of this machine need neither TLS nor a key, but must mean it.
  ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(config_.admin));
  const bool local = IsLocal(endpoint);
  const TlsContext* const tls = local ? nullptr : tls_.get();
  const Authenticator* const authenticator = local ? nullptr : authenticator_.get();
  ASSIGN_OR_RETURN(admin_grpc_, AdminServer::Start(handlers_, calls_, authenticator));
  ASSIGN_OR_RETURN(admin_grpc_port_,
                   Http2Port::Start({.tls = tls,
                                     .handshakes = handshakes_.get(),
                                     .on_connection = HandTo(admin_grpc_->intake(), peers_)},
                                    admin_connections_));
  HealthSource health = HealthTexts();
  health.note = [this] { return unsandboxed_; };
  std::vector<HttpRoute> routes =
      AdminRoutes(std::move(health), [this] { return RenderMetrics(); });
  routes.push_back(UsageRoute(handlers_, calls_));
  HttpServerOptions admin{.address = config_.admin,
                          .title = kAdminTitle,
                          .routes = std::move(routes),
                          .guard = local
                                       ? OwnHostGuard(endpoint.host)
                                       : MakeHttpGuard(authenticator, /*url_keys=*/nullptr, calls_),
                          .tls = tls,
                          .handshakes = handshakes_.get(),
                          .on_http2 = [this](AcceptedConnection connection) {
                            admin_grpc_port_->Take(std::move(connection));
                          }};
  ASSIGN_OR_RETURN(admin_, HttpServer::Start(std::move(admin), admin_connections_));
  return absl::OkStatus();
}

}  // namespace upscaled::server
