#include "server/rpc/grpc_server.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>
#include <vector>

#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>

#include "absl/strings/str_cat.h"
#include "engine/base/cpu_info.h"
#include "engine/base/status_macros.h"
#include "server/handlers/info_handlers.h"
#include "server/rpc/keepalive.h"
#include "server/rpc/reflection.h"
#include "server/rpc/upscale_service.h"

namespace upscaled::server {
namespace {

// One queue keeps up with few cores; more would only be more threads.
constexpr int kCoresPerQueue = 8;
constexpr int kMaxQueues = 2;
constexpr int kThreadsPerQueue = 2;
constexpr int kPendingCalls = 128;  // over all queues: a burst finds somebody waiting

// Calls with messages still to come. Each may have 64 KiB of them in the transport.
constexpr int kMaxPendingCalls = 2000;

// The bytes of a stream in transit: 10 MB/s at a round trip of 50 ms.
constexpr int kStreamWindowBytes = 512 << 10;

// Calls on one connection in addition to those with a slot: watches, answers from memory, refusals.
constexpr int kStreamsBesideSlots = 100;
// Names, values and 32 bytes for each, of one call. Clients of gRPC know it, and fail calls with
// more by themselves; for others gRPC ends the connection.
constexpr int kMaxMetadataBytes = 32 << 10;
constexpr absl::Duration kMinClientPingInterval = absl::Seconds(10);

// The time for an ended call to tell its client.
constexpr std::chrono::milliseconds kFarewell{500};

int QueueCount() { return std::clamp(AvailableCpuCount() / kCoresPerQueue, 1, kMaxQueues); }

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(duration), std::numeric_limits<int>::max()));
}

// The share of an address, as it is of the slots.
int MaxPendingCallsPerAddress(const Limits& limits) {
  return static_cast<int>(int64_t{kMaxPendingCalls} * MaxRequestsPerAddress(limits) /
                          limits.max_concurrent_requests);
}

void SetChannelArguments(const GrpcServerOptions& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(MaxMessageBytes(options.limits)));
  // A compressed message inflates before its size is looked at, and images are compressed already.
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  // gRPC would widen a stream's window to 16 MiB on a fast path, outside any budget.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             options.limits.max_concurrent_requests + kStreamsBesideSlots);
  SetKeepalive(builder);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(kMinClientPingInterval));
  if (options.idle_timeout != absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(options.idle_timeout));
  }
  if (options.max_connection_age != absl::InfiniteDuration()) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS,
                               Milliseconds(options.max_connection_age));
  }
}

}  // namespace

GrpcServer::GrpcServer(const GrpcServerOptions& options, const HandlerEnvironment& handlers,
                       CallEnvironment& calls)
    : options_(options),
      calls_(calls),
      health_([&handlers] { return AnyDeviceWorks(handlers); }),
      pending_(kMaxPendingCalls, MaxPendingCallsPerAddress(options.limits)),
      host_{calls_, methods_, service_, pending_} {
  AddUpscaleMethods(handlers, static_cast<size_t>(options.output_queue_bytes), methods_);
  health_.AddMethods(methods_);
  AddReflectionMethods(methods_);
}

GrpcServer::~GrpcServer() { Shutdown(absl::UnavailableError("the server has stopped")); }

absl::Status GrpcServer::CheckMemoryBudget() const {
  size_t needed = 0;
  for (const auto& [path, method] : methods_) needed = std::max(needed, method.memory_bytes());
  const int64_t budget = calls_.admission.memory_budget_bytes();
  if (static_cast<int64_t>(needed) <= budget) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--memory-budget is ", budget, " bytes, and already the messages of one call may take ",
      needed, " (see --max-tile-pixels, --max-unary-bytes, --output-ring-bytes)"));
}

absl::Status GrpcServer::Start(std::shared_ptr<BodyBudget> budget) {
  RETURN_IF_ERROR(CheckMemoryBudget());
  host_.bodies = std::move(budget);
  // And never shut down: the last one would wait for gRPC's poller for a client that does not read.
  // The poller always runs for 10 s, in the midst of a drain.
  grpc_init();
  grpc::ServerBuilder builder;
  SetChannelArguments(options_, builder);
  // gRPC looks at a message's size when all of it is there, up to 4 GiB of it. When the buffers are
  // full it ends calls in the middle of a message.
  grpc::ResourceQuota quota("clients");
  quota.Resize(static_cast<size_t>(options_.transport_bytes));
  builder.SetResourceQuota(quota);
  builder.RegisterAsyncGenericService(&service_);
  const int queues = QueueCount();
  queues_ = std::make_unique<CompletionQueues>(builder, queues);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::UnavailableError("gRPC cannot start a server");
  for (const auto& queue : queues_->queues()) {
    for (int i = 0; i < kPendingCalls / queues; ++i) Call::Listen(host_, *queue);
  }
  queues_->StartThreads(kThreadsPerQueue);
  intake_.Open(*server_);
  return absl::OkStatus();
}

void GrpcServer::Shutdown(const absl::Status& reason) {
  if (queues_ == nullptr) return;
  intake_.Close();
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
