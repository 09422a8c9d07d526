#include "client/image_call.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "engine/base/status_macros.h"

namespace upscaled::client {
namespace {

constexpr size_t kChunkBytes = 128 << 10;

absl::Status ServerFault(absl::Status status) {
  return WithOrigin(std::move(status), ErrorOrigin::kServer);
}

}  // namespace

absl::Status ImageCall::Run(const ImageRequest& request, std::stop_token stop,
                            ImageResult& result) {
  std::stop_callback cancel(stop, [this] { context_.TryCancel(); });
  const std::unique_ptr<Stream> stream = stub_.UpscaleImage(&context_);
  absl::Status uploaded, downloaded;
  {
    std::jthread uploader([&](std::stop_token done) {
      uploaded = Upload(*stream, request, done);
      if (!uploaded.ok()) context_.TryCancel();
    });
    downloaded = Download(*stream, result);
    if (!downloaded.ok()) context_.TryCancel();
  }  // Stops and joins the uploader.
  const grpc::Status finished = stream->Finish();
  result.source_bytes = sent_bytes_;

  // The first cause: what went wrong here made us cancel the call.
  RETURN_IF_ERROR(uploaded);
  RETURN_IF_ERROR(downloaded);
  if (!finished.ok()) return FromGrpcStatus(finished, channel_, stop);
  return CheckComplete(result);
}

absl::Status ImageCall::Upload(Stream& stream, const ImageRequest& request, std::stop_token done) {
  v1::UpscaleImageRequest message;
  v1::UpscaleImageStart& start = *message.mutable_start();
  *start.mutable_options() = request.options;
  start.set_request_id(request.request_id);
  start.set_total_bytes(source_.total_bytes());
  start.set_report_progress(true);
  start.set_source_sha256(request.source_sha256);
  start.set_name_only(request.name_only);
  if (!stream.Write(message)) return absl::OkStatus();

  std::string& chunk = *message.mutable_chunk();
  for (;;) {
    chunk.resize(kChunkBytes);
    const absl::StatusOr<size_t> count = source_.Read(chunk, done);
    if (!count.ok()) return done.stop_requested() ? absl::OkStatus() : count.status();
    if (*count == 0) break;
    chunk.resize(*count);
    if (!stream.Write(message)) return absl::OkStatus();
    sent_bytes_ += static_cast<int64_t>(*count);
    observer_.OnSent(sent_bytes_);
  }
  stream.WritesDone();
  return absl::OkStatus();
}

absl::Status ImageCall::Download(Stream& stream, ImageResult& result) {
  v1::UpscaleImageResponse response;
  while (stream.Read(&response)) {
    RETURN_IF_ERROR(Receive(response, result));
  }
  return absl::OkStatus();
}

absl::Status ImageCall::Receive(const v1::UpscaleImageResponse& response, ImageResult& result) {
  if (has_header_ == response.has_header() || has_summary_) {
    return ServerFault(absl::InternalError("the server sent the parts of its answer out of order"));
  }
  switch (response.payload_case()) {
    case v1::UpscaleImageResponse::kHeader:
      has_header_ = true;
      result.header = response.header();
      observer_.OnHeader(result.header);
      break;
    case v1::UpscaleImageResponse::kProgress:
      observer_.OnProgress(response.progress());
      break;
    case v1::UpscaleImageResponse::kChunk:
      received_bytes_ += static_cast<int64_t>(response.chunk().size());
      return sink_.Write(response.chunk());
    case v1::UpscaleImageResponse::kSummary:
      has_summary_ = true;
      result.summary = response.summary();
      break;
    case v1::UpscaleImageResponse::PAYLOAD_NOT_SET:
      break;  // Something that a newer server has to say.
  }
  return absl::OkStatus();
}

absl::Status ImageCall::CheckComplete(const ImageResult& result) const {
  if (!has_summary_)
    return ServerFault(absl::DataLossError("the result ended without its summary"));
  if (result.summary.result_bytes() != received_bytes_) {
    return absl::DataLossError(absl::StrCat("received ", received_bytes_, " of ",
                                            result.summary.result_bytes(), " bytes of the result"));
  }
  return absl::OkStatus();
}

}  // namespace upscaled::client
