#include "server/sandbox/decode_turns.h"

#include <algorithm>

namespace upscaled::server {

DecodeTurns::Place::Place(DecodeTurns& turns, const std::string& client, double weight)
    : turns_(turns), client_(turns.Enter(client, weight)) {}

DecodeTurns::Place::~Place() {
  End();
  turns_.Leave(*client_);
}

bool DecodeTurns::Place::Begin() {
  absl::MutexLock lock(&turns_.mutex_);
  if (is_cancelled_) return false;
  if (client_->waiting.empty() && client_->running == 0) {
    client_->served_s = std::max(client_->served_s, turns_.virtual_now_s_);
  }
  is_awake_ = false;
  client_->waiting.push_back(this);
  turns_.Grant();
  turns_.mutex_.Await(absl::Condition(&is_awake_));
  if (!has_turn_) client_->waiting.remove(this);
  return has_turn_;
}

bool DecodeTurns::Place::MustYield() {
  absl::MutexLock lock(&turns_.mutex_);
  Charge();
  const Client* const next = turns_.Next();
  return next != nullptr && next->served_s <= client_->served_s;
}

void DecodeTurns::Place::End() {
  absl::MutexLock lock(&turns_.mutex_);
  if (!has_turn_) return;
  Charge();
  has_turn_ = false;
  --client_->running;
  ++turns_.free_turns_;
  turns_.Grant();
}

void DecodeTurns::Place::Cancel() {
  absl::MutexLock lock(&turns_.mutex_);
  is_cancelled_ = is_awake_ = true;
}

void DecodeTurns::Place::Charge() {
  const absl::Time now = turns_.clock_.Now();
  time_ += now - charged_until_;
  client_->served_s += absl::ToDoubleSeconds(now - charged_until_) / client_->weight;
  charged_until_ = now;
}

size_t DecodeTurns::waiting() const {
  absl::MutexLock lock(&mutex_);
  size_t count = 0;
  for (const auto& [name, client] : clients_) count += client.waiting.size();
  return count;
}

DecodeTurns::Client* DecodeTurns::Enter(const std::string& name, double weight) {
  absl::MutexLock lock(&mutex_);
  Client& client = clients_[name];
  client.weight = weight;
  ++client.places;
  return &client;
}

void DecodeTurns::Leave(Client& client) {
  absl::MutexLock lock(&mutex_);
  --client.places;
  // A client due to begin at the present time anyway needs no record.
  std::erase_if(clients_, [this](const auto& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return entry.second.places == 0 && entry.second.served_s <= virtual_now_s_;
  });
  const bool is_idle =
      std::ranges::all_of(clients_, [](const auto& entry) { return entry.second.places == 0; });
  if (is_idle) clients_.clear();
}

DecodeTurns::Client* DecodeTurns::Next() {
  Client* next = nullptr;
  for (auto& [name, client] : clients_) {
    if (client.waiting.empty()) continue;
    if (next == nullptr || client.served_s < next->served_s) next = &client;
  }
  return next;
}

void DecodeTurns::Grant() {
  while (free_turns_ > 0) {
    Client* const client = Next();
    if (client == nullptr) return;
    virtual_now_s_ = std::max(virtual_now_s_, client->served_s);
    Place& place = *client->waiting.front();
    client->waiting.pop_front();
    ++client->running;
    --free_turns_;
    place.charged_until_ = clock_.Now();
    place.has_turn_ = place.is_awake_ = true;
  }
}

}  // namespace upscaled::server
