#include "server/batching/fair_queue.h"

#include <algorithm>
#include <iterator>

namespace upscaled::server {

void FairQueue::Append(Account& account, QueuedTile tile) {
  if (account.queue.empty()) {
    account.virtual_start = std::max(account.virtual_start, virtual_now_);
    due_[DueOf(account)] = &account;
  }
  ++load_.queued_tiles;
  load_.queued_pixels += tile.pixels();
  account.queue.push_back(std::move(tile));
}

void FairQueue::PutBack(Account& account, QueuedTile tile) {
  due_.erase(DueOf(account));
  account.virtual_start = std::max(account.virtual_start - tile.pixels(), virtual_now_);
  due_[DueOf(account)] = &account;
  ++load_.queued_tiles;
  load_.queued_pixels += tile.pixels();
  account.queue.push_front(std::move(tile));
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
    Account& account = *next->second;
    due_.erase(next);
    TakeTile(account, device, batch);
    if (!account.queue.empty()) due_[DueOf(account)] = &account;
  }
  return batch;
}

void FairQueue::TakeTile(Account& account, const Device& device, Batch& batch) {
  QueuedTile tile = std::move(account.queue.front());
  account.queue.pop_front();
  const int64_t pixels = tile.pixels();
  --load_.queued_tiles;
  load_.queued_pixels -= pixels;
  if (!tile.submission->cancel_status().ok()) {
    batch.dropped.push_back(std::move(tile));
    return;
  }
  if (batch.tiles.empty()) {
    virtual_now_ = std::max(virtual_now_, account.virtual_start);
    batch.executable = tile.submission->executable->On(device);
  }
  account.virtual_start += pixels;
  ++load_.running_tiles;
  batch.pixels += pixels;
  batch.tiles.push_back(std::move(tile));
}

std::vector<QueuedTile> FairQueue::Remove(Account& account,
                                          const std::function<bool(const QueuedTile&)>& which) {
  std::vector<QueuedTile> removed;
  const auto kept_end = std::stable_partition(account.queue.begin(), account.queue.end(),
                                              [&](const auto& tile) { return !which(tile); });
  std::move(kept_end, account.queue.end(), std::back_inserter(removed));
  account.queue.erase(kept_end, account.queue.end());
  for (const QueuedTile& tile : removed) {
    --load_.queued_tiles;
    load_.queued_pixels -= tile.pixels();
  }
  if (account.queue.empty()) due_.erase(DueOf(account));
  return removed;
}

std::vector<Account*> FairQueue::accounts() const {
  std::vector<Account*> accounts;
  for (const auto& [due, account] : due_) accounts.push_back(account);
  return accounts;
}

}  // namespace upscaled::server
