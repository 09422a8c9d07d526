#include "server/rest/progress_board.h"

#include <exception>

namespace upscaled::server {

ProgressBoard::Entry ProgressBoard::Enter(const TenantRequest& request, int64_t total_bytes) {
  Entry entry;
  entry.board_ = this;
  entry.request_ = request;
  entry.progress_ = std::make_shared<RequestProgress>(total_bytes);
  absl::MutexLock lock(&mutex_);
  DropOld();
  requests_[request] = entry.progress_;
  return entry;
}

std::shared_ptr<RequestProgress> ProgressBoard::Find(const TenantRequest& request,
                                                     absl::Time since) {
  absl::MutexLock lock(&mutex_);
  DropOld();
  const auto found = requests_.find(request);
  if (found == requests_.end() || found->second->ToldBefore(since)) return nullptr;
  return found->second;
}

void ProgressBoard::Leave(const TenantRequest& request,
                          const std::shared_ptr<RequestProgress>& progress) {
  absl::MutexLock lock(&mutex_);
  DropOld();
  const auto found = requests_.find(request);
  if (found == requests_.end() || found->second != progress) return;
  if (!progress->ended()) {
    requests_.erase(found);
    return;
  }
  try {
    ended_.push_back({clock_.Now(), request, progress});
  } catch (const std::exception&) {  // no memory
    requests_.erase(found);
  }
  if (ended_.size() > kMaxKept) DropOldest();
}

void ProgressBoard::DropOldest() {
  const auto found = requests_.find(ended_.front().request);
  if (found != requests_.end() && found->second == ended_.front().progress) requests_.erase(found);
  ended_.pop_front();
}

void ProgressBoard::DropOld() {
  const absl::Time now = clock_.Now();
  while (!ended_.empty() && now - ended_.front().time >= kKeptFor) DropOldest();
}

}  // namespace upscaled::server
