// Runs a network on remote servers: an Executable for the pipeline, with streams to send its
// tiles.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/upscale_client.h"
#include "engine/backends/backend.h"

namespace upscaled::client {

// One set of weights in one precision, as the first asked server computes it; others must compute
// alike (UpscaleTilesStart.computation). Immutable, thread safe.
class RemoteNetwork final : public Executable {
 public:
  // Asks a server. `start` names scale and precision. Tiles will have `max_tile_pixels` at most,
  // halo included, and results within a message of `max_message_bytes`. Errors as
  // UpscaleClient::DescribeTiles; FAILED_PRECONDITION for too few pixels.
  static absl::StatusOr<std::shared_ptr<const RemoteNetwork>> Open(UpscaleClient& client,
                                                                   v1::UpscaleTilesStart start,
                                                                   int64_t max_tile_pixels,
                                                                   int64_t max_message_bytes,
                                                                   std::stop_token stop);

  const v1::UpscaleTilesStart& start() const { return start_; }

  const Network& network() const override { return network_; }  // its scale alone
  Precision precision() const override;
  size_t WorkspaceBytes(Size /*tile*/) const override { return 0; }
  size_t WeightBytes() const override { return 0; }
  Size PreferredTile() const override { return {tile_px_, tile_px_}; }

 private:
  RemoteNetwork(v1::UpscaleTilesStart start, const v1::UpscaleTilesHeader& header, int tile_px);
  TilePlan MakePlan(const Rect& tile, Size image) const override;

  const v1::UpscaleTilesStart start_;
  const int reach_px_, whole_px_;
  const int tile_px_;
  Network network_;
};

// One call at a time, with a tile each. The channel gives calls to the servers in turn, and the
// client tries each again by itself. `client` must outlive it.
class RemoteStream final : public Stream {
 public:
  // Calls end with `stop`, and by `deadline`.
  RemoteStream(UpscaleClient& client, absl::Time deadline, std::stop_token stop)
      : client_(client), deadline_(deadline), stop_(std::move(stop)) {}

  // `executable` is a RemoteNetwork. Errors as UpscaleClient::UpscaleTiles, and the tile's own;
  // INTERNAL for an answer without its result.
  absl::Status Run(const Executable& executable, std::span<const TileTask> tiles) override;

 private:
  UpscaleClient& client_;
  const absl::Time deadline_;
  const std::stop_token stop_;
};

}  // namespace upscaled::client
