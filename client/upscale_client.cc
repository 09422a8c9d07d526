#include "client/upscale_client.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "client/image_call.h"
#include "engine/base/status_macros.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/client_context.h"

namespace upscaled::client {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using TilesStream = grpc::ClientReaderWriter<v1::UpscaleTilesRequest, v1::UpscaleTilesResponse>;

constexpr RetryPolicy kNoRetries{.max_retries = 0};

// The refusal by a full or leaving server of a tile that may be sent again; OK: another answer.
absl::Status RefusalOf(const v1::UpscaleTilesResponse& answer) {
  if (!answer.has_error()) return absl::OkStatus();
  absl::Status error = FromTileError(answer.error());
  return IsRetryable(error) ? error : absl::OkStatus();
}

void SendTiles(TilesStream& stream, const v1::UpscaleTilesStart& start,
               std::span<const v1::Tile> tiles, const std::set<uint64_t>& wanted) {
  v1::UpscaleTilesRequest message;
  *message.mutable_start() = start;
  if (!stream.Write(message)) return;
  for (const v1::Tile& tile : tiles) {
    if (!wanted.contains(tile.id())) continue;
    *message.mutable_tile() = tile;
    if (!stream.Write(message)) return;
  }
  stream.WritesDone();
}

using OnTileAnswer = absl::FunctionRef<void(const v1::UpscaleTilesResponse&)>;

// The answers to some tiles, over all tries.
class TileAnswers {
 public:
  explicit TileAnswers(OnTileAnswer on_answer) : on_answer_(on_answer) {}

  // INVALID_ARGUMENT: two tiles have one id.
  absl::Status Expect(std::span<const v1::Tile> tiles) {
    for (const v1::Tile& tile : tiles) {
      if (unanswered_.insert(tile.id()).second) continue;
      return absl::InvalidArgumentError(absl::StrCat("tile id ", tile.id(), " is given twice"));
    }
    return absl::OkStatus();
  }

  const std::set<uint64_t>& unanswered() const { return unanswered_; }
  // The last refusal of this try; OK without one.
  const absl::Status& refusal() const { return refusal_; }

  void BeginTry() {
    refused_.clear();
    refusal_ = absl::OkStatus();
  }

  void Take(const v1::UpscaleTilesResponse& answer) {
    if (!unanswered_.contains(answer.id())) return;
    if (absl::Status error = RefusalOf(answer); !error.ok()) {
      refusal_ = std::move(error);
      refused_[answer.id()] = answer;
    } else {
      unanswered_.erase(answer.id());
      on_answer_(answer);
    }
  }

  // No further try: refusals are answers, too.
  void TakeRefused() {
    for (const auto& [id, answer] : refused_) {
      unanswered_.erase(id);
      on_answer_(answer);
    }
  }

 private:
  OnTileAnswer on_answer_;
  std::set<uint64_t> unanswered_;
  std::map<uint64_t, v1::UpscaleTilesResponse> refused_;  // in this try
  absl::Status refusal_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpscaleClient>> UpscaleClient::Create(const ClientOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, MakeChannel(options.channel));
  return std::make_unique<UpscaleClient>(std::move(channel), options.retry, options.timeout,
                                         RetryClock::Real(), options.api_key, options.traceparent,
                                         options.tracer, options.priority);
}

UpscaleClient::UpscaleClient(std::shared_ptr<grpc::Channel> channel, const RetryPolicy& retry,
                             absl::Duration timeout, RetryClock& clock, std::string api_key,
                             std::string traceparent, std::shared_ptr<Tracer> tracer,
                             std::string priority)
    : channel_(std::move(channel)),
      stub_(v1::UpscaleService::NewStub(channel_)),
      retry_(retry),
      timeout_(timeout),
      api_key_(std::move(api_key)),
      traceparent_(std::move(traceparent)),
      tracer_(std::move(tracer)),
      priority_(std::move(priority)),
      clock_(clock) {}

void UpscaleClient::SetUp(grpc::ClientContext& context, const OperationSpan& span,
                          absl::Time deadline) const {
  if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
  if (!api_key_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", api_key_));
  if (!span.traceparent().empty()) context.AddMetadata("traceparent", span.traceparent());
  if (!priority_.empty()) context.AddMetadata("upscale-priority", priority_);
}

absl::Status UpscaleClient::Connect(absl::Duration patience) {
  if (channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + patience)))
    return absl::OkStatus();
  return WithOrigin(
      absl::UnavailableError(absl::StrCat("no connection within ", absl::FormatDuration(patience))),
      ErrorOrigin::kConnection);
}

// `call` starts the RPC: grpc::Status(grpc::ClientContext*, Response*).
template <typename Response, typename Call>
absl::StatusOr<Response> UpscaleClient::UnaryCall(const char* operation, const RetryPolicy& policy,
                                                  std::stop_token stop, Call call) {
  const absl::Time deadline = clock_.Now() + timeout_;
  OperationSpan span = NewSpan(operation);
  int attempts = 0;
  Response response;
  const auto attempt = [&](int number) -> Attempt {
    attempts = number;
    grpc::ClientContext context;
    SetUp(context, span, deadline);
    std::stop_callback cancel(stop, [&] { context.TryCancel(); });
    return {FromGrpcStatus(call(&context, &response), *channel_, stop)};
  };
  const absl::Status status = RunWithRetries(policy, clock_, deadline, stop, attempt, IgnoreWait);
  RETURN_IF_ERROR(span.End(status, attempts));
  return response;
}

absl::StatusOr<ImageResult> UpscaleClient::UpscaleImage(const ImageRequest& request,
                                                        ImageSource& source, ImageSink& sink,
                                                        ImageObserver& observer,
                                                        std::stop_token stop) {
  if (!request.source_url.empty()) {
    return absl::InvalidArgumentError(
        "images are fetched from URLs by servers over HTTP, http://HOST:PORT, and not over gRPC");
  }
  const absl::Time deadline = clock_.Now() + timeout_;
  OperationSpan span = NewSpan("UpscaleImage");
  ImageResult result;
  const auto attempt = [&](int number) {
    grpc::ClientContext context;
    SetUp(context, span, deadline);
    result = ImageResult{.attempts = number};
    Attempt outcome;
    outcome.status =
        ImageCall(*channel_, *stub_, context, source, sink, observer).Run(request, stop, result);
    if (!outcome.status.ok()) outcome.repeatable = source.Rewind().ok() && sink.Restart().ok();
    return outcome;
  };
  const absl::Status status = RunWithRetries(
      retry_, clock_, deadline, stop, attempt,
      [&](const absl::Status& error, absl::Duration wait) { observer.OnRetry(error, wait); });
  RETURN_IF_ERROR(span.End(status, result.attempts));
  return result;
}

absl::StatusOr<ImageResult> UpscaleClient::UpscaleImage(const ImageRequest& request,
                                                        ImageSource& source, ImageSink& sink) {
  ImageObserver nobody;
  return UpscaleImage(request, source, sink, nobody);
}

absl::StatusOr<v1::UpscaleTilesHeader> UpscaleClient::DescribeTiles(v1::UpscaleTilesStart start,
                                                                    std::stop_token stop) {
  start.set_report_header(true);
  const auto call = [&](grpc::ClientContext* context, v1::UpscaleTilesResponse* response) {
    const std::unique_ptr<TilesStream> stream = stub_->UpscaleTiles(context);
    SendTiles(*stream, start, {}, {});
    stream->Read(response);
    v1::UpscaleTilesResponse further;
    while (stream->Read(&further)) {
    }
    return stream->Finish();
  };
  ASSIGN_OR_RETURN(v1::UpscaleTilesResponse response,
                   UnaryCall<v1::UpscaleTilesResponse>("UpscaleTiles", retry_, stop, call));
  if (response.has_header()) return std::move(*response.mutable_header());
  return WithOrigin(absl::UnimplementedError("the server does not know parts of images"),
                    ErrorOrigin::kServer);
}

absl::Status UpscaleClient::UpscaleTiles(const v1::UpscaleTilesStart& start,
                                         std::span<const v1::Tile> tiles, OnTileAnswer on_answer,
                                         std::stop_token stop, absl::Time deadline) {
  TileAnswers answers(on_answer);
  RETURN_IF_ERROR(answers.Expect(tiles));
  deadline = std::min(deadline, clock_.Now() + timeout_);
  OperationSpan span = NewSpan("UpscaleTiles");
  int attempts = 0;
  const auto attempt = [&](int number) -> Attempt {
    attempts = number;
    answers.BeginTry();
    grpc::ClientContext context;
    SetUp(context, span, deadline);
    std::stop_callback cancel(stop, [&] { context.TryCancel(); });
    const std::unique_ptr<TilesStream> stream = stub_->UpscaleTiles(&context);
    std::jthread sender(
        [&, wanted = answers.unanswered()] { SendTiles(*stream, start, tiles, wanted); });
    v1::UpscaleTilesResponse answer;
    while (stream->Read(&answer)) answers.Take(answer);
    sender.join();
    const grpc::Status finished = stream->Finish();
    return {finished.ok() ? answers.refusal() : FromGrpcStatus(finished, *channel_, stop)};
  };
  absl::Status status = RunWithRetries(retry_, clock_, deadline, stop, attempt, IgnoreWait);
  status = span.End(std::move(status), attempts);
  if (!status.ok() && status != answers.refusal()) return status;
  answers.TakeRefused();
  if (answers.unanswered().empty()) return absl::OkStatus();
  return WithOrigin(absl::DataLossError(absl::StrCat(answers.unanswered().size(), " of ",
                                                     tiles.size(), " tiles were not answered")),
                    ErrorOrigin::kServer);
}

absl::StatusOr<v1::UpscaleResponse> UpscaleClient::Upscale(const v1::UpscaleRequest& request,
                                                           std::stop_token stop) {
  return UnaryCall<v1::UpscaleResponse>(
      "Upscale", retry_, stop, [&](grpc::ClientContext* context, v1::UpscaleResponse* response) {
        return stub_->Upscale(context, request, response);
      });
}

absl::StatusOr<v1::ListModelsResponse> UpscaleClient::ListModels(std::stop_token stop) {
  return UnaryCall<v1::ListModelsResponse>(
      "ListModels", retry_, stop,
      [&](grpc::ClientContext* context, v1::ListModelsResponse* response) {
        return stub_->ListModels(context, v1::ListModelsRequest(), response);
      });
}

absl::StatusOr<v1::ReloadModelsResponse> UpscaleClient::ReloadModels(std::stop_token stop) {
  return UnaryCall<v1::ReloadModelsResponse>(
      "ReloadModels", kNoRetries, stop,
      [&](grpc::ClientContext* context, v1::ReloadModelsResponse* response) {
        return v1::AdminService::NewStub(channel_)->ReloadModels(context, v1::ReloadModelsRequest(),
                                                                 response);
      });
}

absl::StatusOr<v1::AddModelResponse> UpscaleClient::AddModel(
    const v1::AddModelStart& start, std::span<const std::unique_ptr<ImageSource>> sources,
    std::stop_token stop) {
  constexpr size_t kChunkBytes = size_t{32} << 10;
  OperationSpan span = NewSpan("AddModel");
  grpc::ClientContext context;
  SetUp(context, span, clock_.Now() + timeout_);
  std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  v1::AddModelResponse response;
  const auto writer = v1::AdminService::NewStub(channel_)->AddModel(&context, &response);
  v1::AddModelRequest message;
  *message.mutable_start() = start;
  bool open = writer->Write(message);
  std::vector<char> buffer(kChunkBytes);
  absl::Status read;
  for (auto source = sources.begin(); open && source != sources.end();) {
    const absl::StatusOr<size_t> count = (*source)->Read(buffer, stop);
    read = count.status();
    if (!count.ok()) context.TryCancel();
    if (!count.ok()) break;
    if (*count == 0) {
      ++source;
      continue;
    }
    message.set_chunk(buffer.data(), *count);
    open = writer->Write(message);
  }
  writer->WritesDone();
  const grpc::Status finished = writer->Finish();
  RETURN_IF_ERROR(span.End(read.ok() ? FromGrpcStatus(finished, *channel_, stop) : read, 1));
  return response;
}

absl::Status UpscaleClient::ExportModel(
    const v1::ExportModelRequest& request,
    absl::FunctionRef<absl::Status(const v1::ExportModelResponse&)> on_piece,
    std::stop_token stop) {
  OperationSpan span = NewSpan("ExportModel");
  grpc::ClientContext context;
  SetUp(context, span, clock_.Now() + timeout_);
  std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  const auto reader = v1::AdminService::NewStub(channel_)->ExportModel(&context, request);
  v1::ExportModelResponse piece;
  absl::Status taken;
  while (taken.ok() && reader->Read(&piece)) taken = on_piece(piece);
  if (!taken.ok()) context.TryCancel();
  const grpc::Status finished = reader->Finish();
  return span.End(taken.ok() ? FromGrpcStatus(finished, *channel_, stop) : taken, 1);
}

absl::StatusOr<v1::GetUsageResponse> UpscaleClient::GetUsage(const v1::GetUsageRequest& request,
                                                             std::stop_token stop) {
  return UnaryCall<v1::GetUsageResponse>(
      "GetUsage", kNoRetries, stop,
      [&](grpc::ClientContext* context, v1::GetUsageResponse* response) {
        return v1::AdminService::NewStub(channel_)->GetUsage(context, request, response);
      });
}

absl::StatusOr<v1::Model> UpscaleClient::GetModel(const std::string& name, std::stop_token stop) {
  v1::GetModelRequest request;
  request.set_name(name);
  const auto call = [&](grpc::ClientContext* context, v1::GetModelResponse* response) {
    return stub_->GetModel(context, request, response);
  };
  ASSIGN_OR_RETURN(v1::GetModelResponse response,
                   UnaryCall<v1::GetModelResponse>("GetModel", retry_, stop, call));
  return std::move(*response.mutable_model());
}

absl::StatusOr<v1::GetServerInfoResponse> UpscaleClient::ServerInfo(std::stop_token stop) {
  return UnaryCall<v1::GetServerInfoResponse>(
      "GetServerInfo", retry_, stop,
      [&](grpc::ClientContext* context, v1::GetServerInfoResponse* response) {
        return stub_->GetServerInfo(context, v1::GetServerInfoRequest(), response);
      });
}

absl::StatusOr<HealthCheckResponse::ServingStatus> UpscaleClient::CheckHealth(
    const std::string& service, std::stop_token stop) {
  HealthCheckRequest request;
  request.set_service(service);
  const std::unique_ptr<Health::Stub> health = Health::NewStub(channel_);
  const auto call = [&](grpc::ClientContext* context, HealthCheckResponse* response) {
    return health->Check(context, request, response);
  };
  ASSIGN_OR_RETURN(const HealthCheckResponse response,
                   UnaryCall<HealthCheckResponse>("CheckHealth", kNoRetries, stop, call));
  return response.status();
}

}  // namespace upscaled::client
