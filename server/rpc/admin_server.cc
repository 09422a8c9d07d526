#include "server/rpc/admin_server.h"

#include <chrono>
#include <exception>
#include <utility>

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/base/error.h"
#include "server/handlers/info_handlers.h"
#include "server/rpc/grpc_status.h"
#include "upscale/v1/admin.grpc.pb.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// A call takes one for as long as it lasts.
constexpr int kMaxThreads = 8;
constexpr int kMaxStreamsPerConnection = 4;
constexpr int kMaxMessageBytes = 64 << 10;
constexpr std::chrono::milliseconds kAdminFarewell{500};

class AdminService final : public pb::AdminService::Service {
 public:
  AdminService(const HandlerEnvironment& handlers, const CallEnvironment& calls)
      : handlers_(handlers), calls_(calls) {}

  grpc::Status ReloadModels(grpc::ServerContext* context, const pb::ReloadModelsRequest*,
                            pb::ReloadModelsResponse* response) override {
    RequestRecord record{
        .transport = "grpc", .method = "ReloadModels", .peer = calls_.peer(context->peer()).name};
    const absl::Time start = handlers_.clock.Now();
    const absl::Status status = Reload(record, *response);
    record.code = status.code();
    record.total = handlers_.clock.Now() - start;
    if (!status.ok()) record.reason = ErrorReasonName(ReasonOf(status));
    calls_.on_finished(record);
    return ToGrpcStatus(status, record.request_id);
  }

 private:
  absl::Status Reload(RequestRecord& record, pb::ReloadModelsResponse& response) {
    try {
      return server::ReloadModels(handlers_, record, response);
    } catch (const std::exception& error) {
      record.message = error.what();
      return MakeError(absl::StatusCode::kInternal, ErrorReason::kInternal,
                       "an internal error, which the server's log describes");
    }
  }

  const HandlerEnvironment& handlers_;
  const CallEnvironment& calls_;
};

}  // namespace

// Those of the other port are here for reflection alone: their methods answer UNIMPLEMENTED.
struct AdminServer::Services {
  AdminService admin;
  pb::UpscaleService::Service upscale;
  grpc::health::v1::Health::Service health;
};

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const HandlerEnvironment& handlers,
                                                                const CallEnvironment& calls) {
  std::unique_ptr<AdminServer> server(new AdminServer(handlers, calls));
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("admin");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.RegisterService(&server->services_->admin);
  builder.RegisterService(&server->services_->upscale);
  builder.RegisterService(&server->services_->health);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::UnavailableError("gRPC cannot start a server");
  server->intake_.Open(*server->server_);
  return server;
}

AdminServer::AdminServer(const HandlerEnvironment& handlers, const CallEnvironment& calls)
    : services_(new Services{.admin = {handlers, calls}}) {}

AdminServer::~AdminServer() { Shutdown(); }

void AdminServer::Shutdown() {
  if (!intake_.Close()) return;
  server_->Shutdown(std::chrono::system_clock::now() + kAdminFarewell);
  server_.reset();
}

}  // namespace upscaled::server
