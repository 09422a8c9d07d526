#include "server/batching/fair_queue.h"

#include <algorithm>
#include <iterator>

namespace upscaled::server {

void FairQueue::Append(Flow& flow, QueuedTile tile) {
  if (flow.queue.empty()) {
    flow.virtual_start = std::max(flow.virtual_start, virtual_now_);
    due_[DueOf(flow)] = &flow;
  }
  ++load_.queued_tiles;
  load_.queued_pixels += tile.pixels();
  flow.queue.push_back(std::move(tile));
}

void FairQueue::PutBack(Flow& flow, QueuedTile tile) {
  due_.erase(DueOf(flow));
  flow.virtual_start = std::max(flow.virtual_start - tile.pixels(), virtual_now_);
  due_[DueOf(flow)] = &flow;
  ++load_.queued_tiles;
  load_.queued_pixels += tile.pixels();
  flow.queue.push_front(std::move(tile));
}

bool FairQueue::HasWorkFor(const Device& device) const {
  return std::any_of(due_.begin(), due_.end(), [&](const auto& due) {
    return due.second->queue.front().submission->executable->On(device) != nullptr;
  });
}

FairQueue::Batch FairQueue::Take(const Device& device, int streams, int64_t max_pixels) {
  Batch batch;
  // A stream's share of what is queued, so that all streams end at about the same time (guided
  // self-scheduling, Polychronopoulos and Kuck 1987).
  const int64_t max_tiles = (load_.queued_tiles + streams - 1) / streams;
  const auto can_join = [&](const auto& due) {
    const QueuedTile& head = due.second->queue.front();
    const Executable* const executable = head.submission->executable->On(device);
    if (batch.tiles.empty()) return executable != nullptr;
    return executable == batch.executable && std::ssize(batch.tiles) < max_tiles &&
           batch.pixels + head.pixels() <= max_pixels;
  };
  while (true) {
    const auto next = std::find_if(due_.begin(), due_.end(), can_join);
    if (next == due_.end()) break;
    Flow& flow = *next->second;
    due_.erase(next);
    TakeTile(flow, device, batch);
    if (!flow.queue.empty()) due_[DueOf(flow)] = &flow;
  }
  return batch;
}

void FairQueue::TakeTile(Flow& flow, const Device& device, Batch& batch) {
  QueuedTile tile = std::move(flow.queue.front());
  flow.queue.pop_front();
  const int64_t pixels = tile.pixels();
  --load_.queued_tiles;
  load_.queued_pixels -= pixels;
  if (!tile.submission->cancel_status().ok()) {
    batch.dropped.push_back(std::move(tile));
    return;
  }
  if (batch.tiles.empty()) {
    virtual_now_ = std::max(virtual_now_, flow.virtual_start);
    batch.executable = tile.submission->executable->On(device);
  }
  flow.virtual_start += pixels;
  ++load_.running_tiles;
  batch.pixels += pixels;
  batch.tiles.push_back(std::move(tile));
}

std::vector<QueuedTile> FairQueue::Remove(Flow& flow,
                                          const std::function<bool(const QueuedTile&)>& which) {
  std::vector<QueuedTile> removed;
  const auto kept_end = std::stable_partition(flow.queue.begin(), flow.queue.end(),
                                              [&](const auto& tile) { return !which(tile); });
  std::move(kept_end, flow.queue.end(), std::back_inserter(removed));
  flow.queue.erase(kept_end, flow.queue.end());
  for (const QueuedTile& tile : removed) {
    --load_.queued_tiles;
    load_.queued_pixels -= tile.pixels();
  }
  if (flow.queue.empty()) due_.erase(DueOf(flow));
  return removed;
}

std::vector<Flow*> FairQueue::flows() const {
  std::vector<Flow*> flows;
  for (const auto& [due, flow] : due_) flows.push_back(flow);
  return flows;
}

}  // namespace upscaled::server
