#include "server/rpc/upscale_service.h"

#include <algorithm>

#include "server/handlers/info_handlers.h"
#include "server/handlers/upscale_image_handler.h"
#include "server/handlers/upscale_tiles_handler.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

// Bytes that a streaming call reads ahead.
constexpr size_t kInputQueueBytes = size_t{1} << 20;
// Tiles are computed side by side only as far as their results fit into the queue.
constexpr size_t kMinTilesQueueBytes = size_t{16} << 20;

// Bytes of a message besides its image or tile.
constexpr int64_t kMessageSlackBytes = int64_t{64} << 10;
// Room for the chunks of an upload, however small the other limits are.
constexpr int64_t kMinMessageBytes = int64_t{4} << 20;
constexpr int64_t kMaxTilePixelBytes = 6;  // three samples of 16 bits

}  // namespace

size_t MaxMessageBytes(const Limits& limits) {
  return static_cast<size_t>(std::max({kMinMessageBytes, limits.max_unary_bytes,
                                       limits.max_tile_pixels * kMaxTilePixelBytes}) +
                             kMessageSlackBytes);
}

UpscaleService::UpscaleService(const HandlerEnvironment& handlers, CallEnvironment& calls,
                               size_t output_queue_bytes)
    : calls_(calls) {
  const size_t max_message_bytes = MaxMessageBytes(handlers.admission.limits());
  upscale_image_ = {.name = "UpscaleImage",
                    .request_call =
                        [this](auto* context, auto* stream, auto* queue, void* tag) {
                          service_.RequestUpscaleImage(context, stream, queue, queue, tag);
                        },
                    .handler =
                        [&handlers](CallContext context, auto& reader, auto& writer) {
                          return HandleUpscaleImage(handlers, context, reader, writer);
                        },
                    .input_queue_bytes = kInputQueueBytes,
                    .output_queue_bytes = output_queue_bytes,
                    .max_message_bytes = max_message_bytes};
  upscale_tiles_ = {.name = "UpscaleTiles",
                    .request_call =
                        [this](auto* context, auto* stream, auto* queue, void* tag) {
                          service_.RequestUpscaleTiles(context, stream, queue, queue, tag);
                        },
                    .handler =
                        [&handlers](CallContext context, auto& reader, auto& writer) {
                          return HandleUpscaleTiles(handlers, context, reader, writer);
                        },
                    .input_queue_bytes = kInputQueueBytes,
                    .output_queue_bytes = std::max(output_queue_bytes, kMinTilesQueueBytes),
                    .max_message_bytes = max_message_bytes};
  upscale_ = {.name = "Upscale",
              .request_call =
                  [this](auto* context, auto* request, auto* writer, auto* queue, void* tag) {
                    service_.RequestUpscale(context, request, writer, queue, queue, tag);
                  },
              .handler =
                  [&handlers](CallContext context, auto& request, auto& response) {
                    return HandleUpscale(handlers, context, request, response);
                  },
              .on_worker = true};
  list_models_ = {.name = "ListModels",
                  .request_call =
                      [this](auto* context, auto* request, auto* writer, auto* queue, void* tag) {
                        service_.RequestListModels(context, request, writer, queue, queue, tag);
                      },
                  .handler =
                      [&handlers](CallContext, auto&, auto& response) {
                        response = ListModels(handlers);
                        return absl::OkStatus();
                      }};
  reload_models_ = {
      .name = "ReloadModels",
      .request_call =
          [this](auto* context, auto* request, auto* writer, auto* queue, void* tag) {
            service_.RequestReloadModels(context, request, writer, queue, queue, tag);
          },
      .handler = [&handlers](CallContext, auto&,
                             auto& response) { return ReloadModels(handlers, response); },
      .on_worker = true};
  get_model_ = {
      .name = "GetModel",
      .request_call =
          [this](auto* context, auto* request, auto* writer, auto* queue, void* tag) {
            service_.RequestGetModel(context, request, writer, queue, queue, tag);
          },
      .handler = [&handlers](CallContext, auto& request,
                             auto& response) { return GetModel(handlers, request, response); }};
  get_server_info_ = {
      .name = "GetServerInfo",
      .request_call =
          [this](auto* context, auto* request, auto* writer, auto* queue, void* tag) {
            service_.RequestGetServerInfo(context, request, writer, queue, queue, tag);
          },
      .handler =
          [&handlers](CallContext, auto&, auto& response) {
            response = GetServerInfo(handlers);
            return absl::OkStatus();
          }};
}

size_t UpscaleService::max_call_bytes() const {
  return std::max(upscale_image_.memory_bytes(), upscale_tiles_.memory_bytes());
}

void UpscaleService::Listen(grpc::ServerCompletionQueue& queue, int pending_calls) {
  for (int i = 0; i < pending_calls; ++i) {
    server::Listen(calls_, upscale_image_, queue);
    server::Listen(calls_, upscale_tiles_, queue);
    server::Listen(calls_, upscale_, queue);
    server::Listen(calls_, list_models_, queue);
    server::Listen(calls_, reload_models_, queue);
    server::Listen(calls_, get_model_, queue);
    server::Listen(calls_, get_server_info_, queue);
  }
}

}  // namespace upscaled::server
