#include "server/net/connection_table.h"

#include <algorithm>
#include <utility>

namespace upscaled::server {
namespace {

constexpr size_t kMinSweep = 1024;  // addresses

}  // namespace

std::string_view RefusalName(Refusal refusal) {
  constexpr std::string_view kNames[kRefusals] = {"connections", "address", "descriptors"};
  return kNames[static_cast<size_t>(refusal)];
}

std::string_view OffenceName(Offence offence) {
  constexpr std::string_view kNames[kOffences] = {
      "handshake_timeout", "handshake",     "evicted",        "header_bytes", "frame", "resets",
      "server_resets",     "refused_calls", "control_frames", "stalled"};
  return kNames[static_cast<size_t>(offence)];
}

ConnectionTable::Place& ConnectionTable::Place::operator=(Place&& other) noexcept {
  if (this == &other) return *this;
  Release();
  table_ = std::exchange(other.table_, nullptr);
  host_ = std::move(other.host_);
  return *this;
}

void ConnectionTable::Place::Release() {
  if (table_ != nullptr) std::exchange(table_, nullptr)->Release(host_);
}

bool ConnectionTable::Place::Take(CallFault fault) { return table_->Take(host_, fault); }

ConnectionTable::ConnectionTable(const ConnectionLimits& limits, const Clock& clock)
    : limits_(limits), clock_(clock), sweep_at_(kMinSweep) {}

std::variant<ConnectionTable::Place, Refusal> ConnectionTable::Admit(const std::string& host) {
  const absl::Time now = clock_.Now();
  absl::MutexLock lock(&mutex_);
  const bool exempt = host == limits_.exempt_host;
  if (!exempt && counts_.open >= limits_.max_connections) return Refusal::kConnections;
  if (hosts_.size() >= sweep_at_) Sweep(now);
  const auto [it, is_new] = hosts_.try_emplace(
      host, Host{.faults = {TokenBucket(limits_.resets_per_address, now),
                            TokenBucket(limits_.resets_per_address, now),
                            TokenBucket(limits_.refused_calls_per_address, now)}});
  if (!exempt && it->second.open >= limits_.max_connections_per_address) {
    return Refusal::kConnectionsOfAddress;
  }
  ++it->second.open;
  ++counts_.open;
  ++counts_.accepted;
  return Place(*this, host);
}

void ConnectionTable::OnRefused(Refusal refusal) {
  absl::MutexLock lock(&mutex_);
  ++counts_.refused[static_cast<size_t>(refusal)];
}

ConnectionCounts ConnectionTable::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

bool ConnectionTable::Take(const std::string& host, CallFault fault) {
  const absl::Time now = clock_.Now();
  const auto kind = static_cast<size_t>(fault);
  absl::MutexLock lock(&mutex_);
  ++counts_.faults[kind];
  Host& entry = hosts_.at(host);
  entry.last_fault = now;
  return entry.faults[kind].Take(now);
}

void ConnectionTable::OnEnded(Offence offence) {
  absl::MutexLock lock(&mutex_);
  ++counts_.ended[static_cast<size_t>(offence)];
}

void ConnectionTable::Release(const std::string& host) {
  absl::MutexLock lock(&mutex_);
  --counts_.open;
  --hosts_.at(host).open;
}

void ConnectionTable::Sweep(absl::Time now) {
  const auto time_to_fill = [](Rate rate) { return absl::Seconds(rate.burst / rate.per_second); };
  const absl::Duration refill = std::max(time_to_fill(limits_.resets_per_address),
                                         time_to_fill(limits_.refused_calls_per_address));
  std::erase_if(hosts_, [&](const auto& host) {
    return host.second.open == 0 && host.second.last_fault + refill <= now;
  });
  sweep_at_ = std::max(kMinSweep, 2 * hosts_.size());
}

}  // namespace upscaled::server
