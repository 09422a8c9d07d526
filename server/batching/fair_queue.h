// The tiles that wait for the devices of one class: fair between requests by pixels (start-time
// fair queueing, Goyal et al. 1996, with the tile's area as its length), in the order of submission
// within a request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/base/cancellation.h"
#include "engine/pipeline/tile_executor.h"
#include "server/devices/device.h"
#include "server/devices/device_chooser.h"
#include "server/devices/device_executable.h"

namespace upscaled::server {

// The cost of one request's tiles so far.
struct RequestUsage {
  int64_t tiles = 0;     // that were computed; a tile that moved counts once
  absl::Duration queue;  // summed over these tiles
  absl::Duration infer;  // summed over these tiles: a batch's time is shared out by pixels
  std::vector<std::string> devices;  // that computed them, in order of their first
};

// The tiles that are queued or running.
struct TileLoad {
  int64_t queued_tiles = 0;
  int64_t queued_pixels = 0;
  int64_t running_tiles = 0;
};

struct Flow;

// The tiles of one Submit.
struct Submission {
  std::shared_ptr<Flow> flow;  // null: not accepted
  std::shared_ptr<const DeviceExecutable> executable;
  std::vector<TileTask> tiles;
  Cancellation* cancellation;
  TileExecutor::TileDone done;
  size_t unfinished;
  Cancellation::Registration registration;

  absl::Status cancel_status() const {
    return cancellation == nullptr ? absl::OkStatus() : cancellation->status();
  }
};

struct QueuedTile {
  std::shared_ptr<Submission> submission;
  size_t index;
  absl::Time submitted;
  bool moved = false;  // a device has failed on it

  const TileTask& task() const { return submission->tiles[index]; }
  int64_t pixels() const { return std::max<int64_t>(task().plan->tile.Area(), 1); }
};

// One request's tiles.
struct Flow {
  explicit Flow(uint64_t id) : id(id) {}

  const uint64_t id;
  DeviceExecutables executables;  // that its tiles may be of, all on the same devices, best first
  int device_class = -1;          // that it is bound to; -1: not yet
  DeviceChooser::Binding binding;
  // The service, in pixels, at which its next tile is due: the flow with the minimum goes first.
  int64_t virtual_start = 0;
  std::deque<QueuedTile> queue;
  RequestUsage usage;
};

// Not thread safe. Flows with queued tiles must be kept alive by these.
class FairQueue {
 public:
  // Tiles of one executable of one device.
  struct Batch {
    std::vector<QueuedTile> tiles;
    std::vector<QueuedTile> dropped;  // cancelled ones met on the way
    int64_t pixels = 0;
    const Executable* executable = nullptr;
  };

  void Append(Flow& flow, QueuedTile tile);
  // A tile of a batch that did not run after all, before all others of its flow.
  void PutBack(Flow& flow, QueuedTile tile);
  bool HasWorkFor(const Device& device) const;
  // The tiles of up to `max_pixels` that are due for the device (a larger one comes alone), and no
  // more than one stream's share when there are `streams`. They count as running until Ended.
  Batch Take(const Device& device, int streams, int64_t max_pixels);
  void Ended(const Batch& batch) { load_.running_tiles -= std::ssize(batch.tiles); }
  // Takes out the flow's tiles that `which` chooses.
  std::vector<QueuedTile> Remove(Flow& flow, const std::function<bool(const QueuedTile&)>& which);
  std::vector<Flow*> flows() const;  // with queued tiles
  const TileLoad& load() const { return load_; }

 private:
  using Due = std::pair<int64_t, uint64_t>;  // a flow's virtual start and id

  static Due DueOf(const Flow& flow) { return {flow.virtual_start, flow.id}; }
  void TakeTile(Flow& flow, const Device& device, Batch& batch);

  std::map<Due, Flow*> due_;  // exactly those with queued tiles
  int64_t virtual_now_ = 0;
  TileLoad load_;
};

}  // namespace upscaled::server
