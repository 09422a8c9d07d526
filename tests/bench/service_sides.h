// The sides of `upscale-bench service`, in one process: the engine by itself, and the same engine
// behind a server, a loopback connection and a client.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/service.h"
#include "client/upscale_client.h"
#include "engine/backends/backend.h"
#include "engine/image/image.h"
#include "engine/pipeline/transcode.h"
#include "server/lifecycle/server.h"
#include "server/telemetry/logger.h"
#include "tests/bench/options.h"

namespace upscaled::bench {

struct SidesOptions {
  ModelOptions model;
  int threads = 0;  // that compute; 0 = all available
};

// The fastest level with compression, for clients on a fast network.
inline constexpr int kPngCompression = 1;

absl::StatusOr<std::string> EncodePng(ImageView image);
absl::StatusOr<Image> DecodePng(std::string_view png);

// Thread safe.
class EngineSide {
 public:
  static absl::StatusOr<std::unique_ptr<EngineSide>> Create(const SidesOptions& options);

  int scale() const { return executable_->network().scale; }

  // Raw rows to raw rows, through the pipeline.
  absl::Status UpscaleRows(ImageView source, MutableImageView result);
  // PNG to PNG.
  absl::Status UpscalePng(std::string_view png);

 private:
  EngineSide(std::unique_ptr<Backend> backend, std::shared_ptr<const Executable> executable);
  absl::StatusOr<UpscalePlan> Plan(const ImageSpec& source) const;

  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Executable> executable_;
  std::unique_ptr<TileExecutor> executor_;
};

// Thread safe, one thread per client.
class ServiceSide {
 public:
  // A server on free ports with its usual settings, but as many calls and connections of one
  // address as the clients need, and clients of both ways in with connections of their own.
  static absl::StatusOr<std::unique_ptr<ServiceSide>> Create(const SidesOptions& options,
                                                             int clients);

  // UpscaleTiles with the whole image as one raw tile.
  absl::Status UpscaleTile(int client, ImageView source);
  // UpscaleImage, PNG to PNG, over gRPC and over HTTP.
  absl::Status UpscalePng(int client, std::string_view png) {
    return UpscalePng(*clients_[client], png);
  }
  absl::Status UpscalePngOverHttp(int client, std::string_view png) {
    return UpscalePng(*http_clients_[client], png);
  }

 private:
  ServiceSide() : logger_(server::LogFormat::kText, server::LogLevel::kError) {}

  static absl::Status UpscalePng(client::Service& service, std::string_view png);

  server::Logger logger_;
  std::unique_ptr<server::Server> server_;
  std::vector<std::unique_ptr<client::UpscaleClient>> clients_;
  std::vector<std::unique_ptr<client::Service>> http_clients_;
};

}  // namespace upscaled::bench
