#include "server/rpc/admin_server.h"

#include <chrono>
#include <functional>
#include <utility>

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/support/server_interceptor.h>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/calls/call_steps.h"
#include "server/handlers/info_handlers.h"
#include "server/handlers/model_files_handler.h"
#include "server/handlers/usage_handler.h"
#include "server/rpc/caller_metadata.h"
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
  AdminService(const HandlerEnvironment& handlers, const CallEnvironment& calls,
               const Authenticator* authenticator)
      : handlers_(handlers), calls_(calls), authenticator_(authenticator) {}

  grpc::Status ReloadModels(grpc::ServerContext* context, const pb::ReloadModelsRequest*,
                            pb::ReloadModelsResponse* response) override {
    return Serve(*context, "ReloadModels", [&](RequestRecord& record) {
      return server::ReloadModels(handlers_, record, *response);
    });
  }

  grpc::Status AddModel(grpc::ServerContext* context,
                        grpc::ServerReader<pb::AddModelRequest>* reader,
                        pb::AddModelResponse* response) override {
    return Serve(*context, "AddModel", [&](RequestRecord& record) {
      return server::AddModel(
          handlers_, record,
          [reader](pb::AddModelRequest& message) { return reader->Read(&message); }, *response);
    });
  }

  grpc::Status ExportModel(grpc::ServerContext* context, const pb::ExportModelRequest* request,
                           grpc::ServerWriter<pb::ExportModelResponse>* writer) override {
    return Serve(*context, "ExportModel", [&](RequestRecord& record) {
      record.model = request->name();
      return server::ExportModel(
          handlers_, *request,
          [writer](const pb::ExportModelResponse& message) { return writer->Write(message); });
    });
  }

  grpc::Status GetUsage(grpc::ServerContext* context, const pb::GetUsageRequest* request,
                        pb::GetUsageResponse* response) override {
    return Serve(*context, "GetUsage", [&](RequestRecord&) {
      return server::GetUsage(handlers_, absl::Now(), *request, *response);
    });
  }

 private:
  // Runs `handler` for a caller who may call it, and records the call.
  grpc::Status Serve(grpc::ServerContext& context, const char* method,
                     const std::function<absl::Status(RequestRecord&)>& handler) {
    const PeerAddress peer = calls_.peer(context.peer());
    RequestRecord record{.transport = "grpc", .method = method, .peer = peer.name};
    const absl::Time start = handlers_.clock.Now();
    RecordTrace(calls_, TraceparentOf(context.client_metadata()), start, record);
    absl::Status status = Authorize(context, peer, record);
    if (status.ok()) status = GuardHandler(record, [&] { return handler(record); });
    CloseRecord(record, status, handlers_.clock.Now() - start);
    calls_.on_finished(record);
    AddRetryPushback(status, context);
    return ToGrpcStatus(status, record.request_id);
  }
  absl::Status Authorize(const grpc::ServerContext& context, const PeerAddress& peer,
                         RequestRecord& record) {
    if (authenticator_ == nullptr) return absl::OkStatus();
    const auto [status, caller] = authenticator_->Authorize(
        CredentialsOf(context.client_metadata(), peer), peer.host, Role::kAdmin);
    RecordCaller(caller.get(), record);
    return status;
  }

  const HandlerEnvironment& handlers_;
  const CallEnvironment& calls_;
  const Authenticator* const authenticator_;
};

// Ends calls of reflection, which is gRPC's own code, unless their callers are operators. A call
// ended this way reads and writes nothing, even if its handler goes on.
class ReflectionGuard final : public grpc::experimental::Interceptor {
 public:
  ReflectionGuard(const Authenticator& authenticator, const CallEnvironment& calls,
                  grpc::ServerContext& context)
      : authenticator_(authenticator), calls_(calls), context_(context) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      const PeerAddress peer = calls_.peer(context_.peer());
      const absl::Status status =
          authenticator_
              .Authorize(CredentialsOf(*methods->GetRecvInitialMetadata(), peer), peer.host,
                         Role::kAdmin)
              .status;
      if (!status.ok()) {
        grpc_call_cancel_with_status(context_.c_call(),
                                     static_cast<grpc_status_code>(status.code()),
                                     std::string(status.message()).c_str(), nullptr);
      }
    }
    methods->Proceed();
  }

 private:
  const Authenticator& authenticator_;
  const CallEnvironment& calls_;
  grpc::ServerContext& context_;
};

class ReflectionGuards final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  ReflectionGuards(const Authenticator& authenticator, const CallEnvironment& calls)
      : authenticator_(authenticator), calls_(calls) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    if (!absl::StartsWith(info->method(), "/grpc.reflection.")) return nullptr;
    return new ReflectionGuard(authenticator_, calls_,
                               *static_cast<grpc::ServerContext*>(info->server_context()));
  }

 private:
  const Authenticator& authenticator_;
  const CallEnvironment& calls_;
};

}  // namespace

// The other port's services are here for reflection only: their methods answer UNIMPLEMENTED.
struct AdminServer::Services {
  std::unique_ptr<pb::AdminService::Service> admin;
  pb::UpscaleService::Service upscale;
  grpc::health::v1::Health::Service health;
};

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(
    const HandlerEnvironment& handlers, const CallEnvironment& calls,
    const Authenticator* authenticator) {
  std::unique_ptr<AdminServer> server(new AdminServer(handlers, calls, authenticator));
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("admin");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.RegisterService(server->services_->admin.get());
  builder.RegisterService(&server->services_->upscale);
  builder.RegisterService(&server->services_->health);
  if (authenticator != nullptr) {
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> guards;
    guards.push_back(std::make_unique<ReflectionGuards>(*authenticator, calls));
    builder.experimental().SetInterceptorCreators(std::move(guards));
  }
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::UnavailableError("gRPC cannot start a server");
  server->intake_.Open(*server->server_);
  return server;
}

AdminServer::AdminServer(const HandlerEnvironment& handlers, const CallEnvironment& calls,
                         const Authenticator* authenticator)
    : services_(
          new Services{.admin = std::make_unique<AdminService>(handlers, calls, authenticator)}) {}

AdminServer::~AdminServer() { Shutdown(); }

void AdminServer::Shutdown() {
  if (!intake_.Close()) return;
  server_->Shutdown(std::chrono::system_clock::now() + kAdminFarewell);
  server_.reset();
}

}  // namespace upscaled::server
