#include "server/rpc/grpc_server.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/handlers/info_handlers.h"

namespace upscaled::server {
namespace {

constexpr int kQueues = 2;
constexpr int kThreadsPerQueue = 2;
constexpr int kPendingCalls = 16;  // per method and queue: a burst finds somebody waiting

// Calls on one connection beside those with a slot: watches, answers from memory, refusals.
constexpr int kStreamsBesideSlots = 100;
constexpr absl::Duration kKeepaliveTime = absl::Seconds(60);
constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);
constexpr absl::Duration kMinClientPingInterval = absl::Seconds(10);

// How long a call that has ended may take to tell its client.
constexpr std::chrono::seconds kFarewell{2};

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(duration), std::numeric_limits<int>::max()));
}

std::shared_ptr<grpc::ServerCredentials> Credentials(const TlsMaterial& tls) {
  if (tls.cert_chain.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      tls.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                            : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls.client_ca;
  options.pem_key_cert_pairs.push_back({tls.private_key, tls.cert_chain});
  return grpc::SslServerCredentials(options);
}

void SetChannelArguments(const GrpcServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(MaxMessageBytes(options.limits)));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             options.limits.max_concurrent_requests + kStreamsBesideSlots);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kKeepaliveTime));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(kMinClientPingInterval));
  if (options.max_connection_age != absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               Milliseconds(options.max_connection_age));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              const HandlerEnvironment& handlers,
                                                              CallEnvironment& calls) {
  std::unique_ptr<GrpcServer> server(new GrpcServer(options, handlers, calls));
  RETURN_IF_ERROR(server->Listen(options));
  return server;
}

GrpcServer::GrpcServer(const GrpcServerOptions& options, const HandlerEnvironment& handlers,
                       CallEnvironment& calls)
    : calls_(calls),
      health_calls_(calls),
      upscale_(handlers, calls, static_cast<size_t>(options.output_queue_bytes)),
      health_(health_calls_, [&handlers] { return AnyDeviceWorks(handlers); }) {
  health_calls_.on_finished = [](const RequestRecord&) {};
}

GrpcServer::~GrpcServer() { Shutdown(absl::UnavailableError("the server has stopped")); }

absl::Status GrpcServer::Listen(const GrpcServerOptions& options) {
  if (const auto needed = static_cast<int64_t>(upscale_.max_call_bytes()),
      budget = calls_.admission.memory_budget_bytes();
      needed > budget) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--memory-budget is ", budget, " bytes, and the messages of one call alone may take ",
        needed, " (see --max-tile-pixels, --max-unary-bytes, --output-ring-bytes)"));
  }
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  SetChannelArguments(options, builder);
  builder.AddListeningPort(options.listen, Credentials(options.tls), &port_);
  builder.RegisterService(&upscale_.service());
  builder.RegisterService(&health_.service());
  queues_ = std::make_unique<CompletionQueues>(builder, kQueues);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.listen,
                     ": the port is taken, the address is not of this machine, or the TLS files do "
                     "not fit each other"));
  }
  for (const auto& queue : queues_->queues()) {
    upscale_.Listen(*queue, kPendingCalls);
    health_.Listen(*queue, kPendingCalls);
  }
  queues_->StartThreads(kThreadsPerQueue);
  return absl::OkStatus();
}

void GrpcServer::Shutdown(const absl::Status& reason) {
  if (queues_ == nullptr) return;
  if (server_ != nullptr) {
    calls_.registry.CancelAll(reason);
    server_->Shutdown(std::chrono::system_clock::now() + kFarewell);
    calls_.registry.AwaitEmpty();
    server_.reset();
  }
  queues_->Shutdown();
  queues_.reset();
}

}  // namespace upscaled::server
