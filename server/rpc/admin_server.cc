#include "server/rpc/admin_server.h"

#include <chrono>
#include <functional>
#include <utility>

#include <grpcpp/resource_quota.h>

#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/calls/call_steps.h"
#include "server/handlers/info_handlers.h"
#include "server/handlers/model_files_handler.h"
#include "server/handlers/usage_handler.h"
#include "server/rpc/caller_metadata.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/keepalive.h"
#include "server/rpc/reflection.h"
#include "upscale/v1/admin.grpc.pb.h"
#include "upscale/v1/upscale.grpc.pb.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

// A call takes one for as long as it lasts.
constexpr int kMaxThreads = 8;
constexpr int kMaxStreamsPerConnection = 4;
constexpr int kMaxMessageBytes = 64 << 10;
constexpr std::chrono::milliseconds kAdminFarewell{500};

}  // namespace

// Lets operators in, and records their calls.
class OperatorCalls {
 public:
  OperatorCalls(const HandlerEnvironment& handlers, const CallEnvironment& calls,
                const Authenticator* authenticator)
      : handlers_(handlers), calls_(calls), authenticator_(authenticator) {}

  // Runs `handler` for a permitted caller, and records the call.
  grpc::Status Serve(grpc::ServerContext& context, const char* method,
                     const std::function<absl::Status(RequestRecord&)>& handler) const {
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

 private:
  absl::Status Authorize(const grpc::ServerContext& context, const PeerAddress& peer,
                         RequestRecord& record) const {
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

class AdminService final : public pb::AdminService::Service {
 public:
  AdminService(const HandlerEnvironment& handlers, const OperatorCalls& operators)
      : handlers_(handlers), operators_(operators) {}

  grpc::Status ReloadModels(grpc::ServerContext* context, const pb::ReloadModelsRequest*,
                            pb::ReloadModelsResponse* response) override {
    return operators_.Serve(*context, "ReloadModels", [&](RequestRecord& record) {
      return server::ReloadModels(handlers_, record, *response);
    });
  }

  grpc::Status AddModel(grpc::ServerContext* context,
                        grpc::ServerReader<pb::AddModelRequest>* reader,
                        pb::AddModelResponse* response) override {
    return operators_.Serve(*context, "AddModel", [&](RequestRecord& record) {
      return server::AddModel(
          handlers_, record,
          [reader](pb::AddModelRequest& message) { return reader->Read(&message); }, *response);
    });
  }

  grpc::Status ExportModel(grpc::ServerContext* context, const pb::ExportModelRequest* request,
                           grpc::ServerWriter<pb::ExportModelResponse>* writer) override {
    return operators_.Serve(*context, "ExportModel", [&](RequestRecord& record) {
      record.model = request->name();
      return server::ExportModel(
          handlers_, *request,
          [writer](const pb::ExportModelResponse& message) { return writer->Write(message); });
    });
  }

  grpc::Status GetUsage(grpc::ServerContext* context, const pb::GetUsageRequest* request,
                        pb::GetUsageResponse* response) override {
    return operators_.Serve(*context, "GetUsage", [&](RequestRecord&) {
      return server::GetUsage(handlers_, absl::Now(), *request, *response);
    });
  }

 private:
  const HandlerEnvironment& handlers_;
  const OperatorCalls& operators_;
};

// `Contract` is the generated service of grpc.reflection.v1 or v1alpha.
template <typename Contract>
class ReflectionService final : public Contract {
 public:
  ReflectionService(const Reflection& reflection, const OperatorCalls& operators)
      : reflection_(reflection), operators_(operators) {}

  grpc::Status ServerReflectionInfo(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<ServerReflectionResponse, ServerReflectionRequest>* stream)
      override {
    return operators_.Serve(*context, "ServerReflectionInfo", [&](RequestRecord&) {
      ServerReflectionRequest request;
      while (stream->Read(&request) && stream->Write(reflection_.Answer(request))) {
      }
      return absl::OkStatus();
    });
  }

 private:
  const Reflection& reflection_;
  const OperatorCalls& operators_;
};

struct AdminServer::Services {
  OperatorCalls operators;
  // Lists the services of the clients' port, too: tools find every contract here.
  Reflection reflection{{pb::AdminService::service_full_name(),
                         pb::UpscaleService::service_full_name(),
                         grpc::health::v1::Health::service_full_name(),
                         grpc::reflection::v1::ServerReflection::service_full_name(),
                         grpc::reflection::v1alpha::ServerReflection::service_full_name()}};
  AdminService admin;
  ReflectionService<grpc::reflection::v1::ServerReflection::Service> reflection_v1;
  ReflectionService<grpc::reflection::v1alpha::ServerReflection::Service> reflection_v1alpha;

  Services(const HandlerEnvironment& handlers, const CallEnvironment& calls,
           const Authenticator* authenticator)
      : operators(handlers, calls, authenticator),
        admin(handlers, operators),
        reflection_v1(reflection, operators),
        reflection_v1alpha(reflection, operators) {}
};

absl::StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(
    const HandlerEnvironment& handlers, const CallEnvironment& calls,
    const Authenticator* authenticator) {
  std::unique_ptr<AdminServer> server(new AdminServer(handlers, calls, authenticator));
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("admin");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  SetKeepalive(builder);  // a client that has gone would hold a thread
  builder.RegisterService(&server->services_->admin);
  builder.RegisterService(&server->services_->reflection_v1);
  builder.RegisterService(&server->services_->reflection_v1alpha);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::UnavailableError("gRPC cannot start a server");
  server->intake_.Open(*server->server_);
  return server;
}

AdminServer::AdminServer(const HandlerEnvironment& handlers, const CallEnvironment& calls,
                         const Authenticator* authenticator)
    : services_(new Services(handlers, calls, authenticator)) {}

AdminServer::~AdminServer() { Shutdown(); }

void AdminServer::Shutdown() {
  if (!intake_.Close()) return;
  server_->Shutdown(std::chrono::system_clock::now() + kAdminFarewell);
  server_.reset();
}

}  // namespace upscaled::server
