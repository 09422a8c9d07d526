// The tiles of one Submit, from then on until the last of them is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/backends/backend.h"
#include "engine/base/cancellation.h"
#include "engine/pipeline/tile_executor.h"
#include "server/devices/device_executable.h"

namespace upscaled::server {

struct Flow;
struct Submission;

// Submissions with queued tiles, in the order of their tiles' runs.
using SubmissionList = std::list<std::shared_ptr<Submission>>;

struct Submission {
  Submission(std::vector<TileTask> tasks, Cancellation* cancelled_by,
             TileExecutor::TileDone on_done, absl::Time now)
      : tiles(std::move(tasks)),
        cancellation(cancelled_by),
        done(std::move(on_done)),
        submitted(now),
        unfinished(tiles.size()) {}

  const std::vector<TileTask> tiles;
  Cancellation* const cancellation;  // may be null
  const TileExecutor::TileDone done;
  const absl::Time submitted;
  std::atomic<size_t> unfinished;
  Cancellation::Registration registration;

  // Guarded as the queue is. Tiles put back are queued, the last of these first, and then the tiles
  // from `next` on, if the submission has a place in its flow's queue.
  std::shared_ptr<Flow> flow;  // null: not accepted
  std::shared_ptr<const DeviceExecutable> executable;
  std::optional<SubmissionList::iterator> place;
  size_t next = 0;
  std::vector<size_t> put_back;
  std::vector<bool> moved;  // tiles that a device has failed on; empty while there are none
  std::vector<bool> alone;  // tiles that a run of several has failed with; the same
  int64_t queued_cost = 0;

  int64_t queued_tiles() const {
    return place.has_value() ? std::ssize(put_back) + std::ssize(tiles) - static_cast<int64_t>(next)
                             : 0;
  }
  absl::Status cancel_status() const {
    return cancellation == nullptr ? absl::OkStatus() : cancellation->status();
  }
};

// One tile of a submission.
struct SubmittedTile {
  std::shared_ptr<Submission> submission;
  size_t index;

  const TileTask& task() const { return submission->tiles[index]; }
  int64_t cost() const { return CostOf(task()); }
  // Whether a device has failed on it.
  bool moved() const { return !submission->moved.empty() && submission->moved[index]; }
  // Whether a run of several has failed with it.
  bool alone() const { return !submission->alone.empty() && submission->alone[index]; }
};

}  // namespace upscaled::server
