// Runs the tiles of one request for its pipeline: a pool over one device's streams, or a request's
// flow through the server's scheduler.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/backend.h"
#include "engine/base/cancellation.h"

namespace upscaled {

class TileExecutor {
 public:
  // Called once per tile, on any thread, in completion order: OK, the stream's error, or the
  // cancellation's reason for a dropped tile. When it is called, no thread uses the tile's pixels
  // any more.
  using TileDone = std::function<void(size_t index, const absl::Status& status)>;

  virtual ~TileExecutor() = default;

  // Queues tiles and returns at once. `cancellation` (may be null) must stay valid until the last
  // TileDone. Once it is cancelled, tiles not yet started are dropped at once.
  virtual void Submit(std::shared_ptr<const Executable> executable, std::vector<TileTask> tiles,
                      Cancellation* cancellation, TileDone done) = 0;

  // Streams working side by side: how many tiles are worth having in flight.
  virtual int concurrency() const = 0;
};

}  // namespace upscaled
