#include "server/rpc/upscale_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/handlers/info_handlers.h"
#include "server/handlers/upscale_image.h"
#include "server/handlers/upscale_tiles_handler.h"
#include "server/rpc/typed_method.h"
#include "upscale/v1/upscale.pb.h"

namespace upscaled::server {
namespace {

namespace pb = upscale::v1;

constexpr char kService[] = "upscale.v1.UpscaleService";

// Bytes read ahead by a streaming call.
constexpr size_t kInputQueueBytes = size_t{1} << 20;
// Tiles are computed side by side only as far as their results fit into the queue.
constexpr size_t kMinTilesQueueBytes = size_t{16} << 20;

// Bytes of a message besides its image or tile.
constexpr int64_t kMessageSlackBytes = int64_t{64} << 10;
// Room for the chunks of an upload, however small the other limits are.
constexpr int64_t kMinMessageBytes = int64_t{4} << 20;
constexpr int64_t kMaxTilePixelBytes = 6;  // three samples of 16 bits

Method NewMethod(const std::string& name, const google::protobuf::Message& request, Role role) {
  return {.path = absl::StrCat("/", kService, "/", name),
          .name = name,
          .request = &request,
          .max_first_message_bytes = kMaxSmallMessageBytes,
          .role = role};
}

template <typename Handler>
Method QuickMethod(const std::string& name, const google::protobuf::Message& request,
                   Handler handler) {
  Method method = NewMethod(name, request, Role::kRead);
  method.quick = std::move(handler);
  return method;
}

Method UpscaleImageMethod(const HandlerEnvironment& handlers, size_t output_queue_bytes) {
  Method method =
      NewMethod("UpscaleImage", pb::UpscaleImageRequest::default_instance(), Role::kUpscale);
  method.max_message_bytes = MaxMessageBytes(handlers.admission.limits());
  method.input_queue_bytes = kInputQueueBytes;
  method.output_queue_bytes = output_queue_bytes;
  method.spools = true;
  method.stream = StreamHandler<pb::UpscaleImageRequest, pb::UpscaleImageResponse>(
      [&handlers](CallContext context, auto& reader, auto& writer) {
        return HandleUpscaleImage(handlers, context, reader, writer);
      });
  return method;
}

Method UpscaleTilesMethod(const HandlerEnvironment& handlers, size_t output_queue_bytes) {
  Method method =
      NewMethod("UpscaleTiles", pb::UpscaleTilesRequest::default_instance(), Role::kUpscale);
  method.max_message_bytes = MaxMessageBytes(handlers.admission.limits());
  method.input_queue_bytes = kInputQueueBytes;
  method.output_queue_bytes = std::max(output_queue_bytes, kMinTilesQueueBytes);
  method.stream = StreamHandler<pb::UpscaleTilesRequest, pb::UpscaleTilesResponse>(
      [&handlers](CallContext context, auto& reader, auto& writer) {
        return HandleUpscaleTiles(handlers, context, reader, writer);
      });
  return method;
}

Method UpscaleMethod(const HandlerEnvironment& handlers) {
  Method method = NewMethod("Upscale", pb::UpscaleRequest::default_instance(), Role::kUpscale);
  method.max_first_message_bytes =
      static_cast<size_t>(handlers.admission.limits().max_unary_bytes + kMessageSlackBytes);
  method.unary = UnaryHandler<pb::UpscaleRequest, pb::UpscaleResponse>(
      [&handlers](CallContext context, auto& request, auto& response) {
        return HandleUpscale(handlers, context, request, response);
      });
  return method;
}

void Add(Method method, MethodTable& methods) {
  std::string path = method.path;
  methods.emplace(std::move(path), std::move(method));
}

}  // namespace

size_t MaxMessageBytes(const Limits& limits) {
  return static_cast<size_t>(std::max({kMinMessageBytes, limits.max_unary_bytes,
                                       limits.max_tile_pixels * kMaxTilePixelBytes}) +
                             kMessageSlackBytes);
}

void AddUpscaleMethods(const HandlerEnvironment& handlers, size_t output_queue_bytes,
                       MethodTable& methods) {
  Add(UpscaleImageMethod(handlers, output_queue_bytes), methods);
  Add(UpscaleTilesMethod(handlers, output_queue_bytes), methods);
  Add(UpscaleMethod(handlers), methods);
  Add(QuickMethod("ListModels", pb::ListModelsRequest::default_instance(),
                  UnaryHandler<pb::ListModelsRequest, pb::ListModelsResponse>(
                      [&handlers](CallContext, auto&, auto& response) {
                        response = ListModels(handlers);
                        return absl::OkStatus();
                      })),
      methods);
  Add(QuickMethod("GetModel", pb::GetModelRequest::default_instance(),
                  UnaryHandler<pb::GetModelRequest, pb::GetModelResponse>(
                      [&handlers](CallContext, auto& request, auto& response) {
                        return GetModel(handlers, request, response);
                      })),
      methods);
  Add(QuickMethod("GetServerInfo", pb::GetServerInfoRequest::default_instance(),
                  UnaryHandler<pb::GetServerInfoRequest, pb::GetServerInfoResponse>(
                      [&handlers](CallContext, auto&, auto& response) {
                        response = GetServerInfo(handlers);
                        return absl::OkStatus();
                      })),
      methods);
}

}  // namespace upscaled::server
