#include "server/admission/admitted_work.h"

#include <algorithm>

namespace upscaled::server {

AdmittedWork::Request AdmittedWork::Add(const Payer& payer) {
  const auto entry = payers_.try_emplace({payer.priority(), payer.name()}).first;
  entry->second.weight = payer.weight();
  return {entry, entry->second.requests.insert(entry->second.requests.end(), 0)};
}

void AdmittedWork::Set(const Request& request, int64_t cost) {
  const int64_t more = cost - *request.place_;
  *request.place_ = cost;
  request.payer_->second.cost += more;
  cost_ += more;
}

void AdmittedWork::Remove(const Request& request) {
  Set(request, 0);
  request.payer_->second.requests.erase(request.place_);
  if (request.payer_->second.requests.empty()) payers_.erase(request.payer_);
}

int64_t AdmittedWork::CostOf(const Payer& payer) const {
  const auto entry = payers_.find({payer.priority(), payer.name()});
  return entry == payers_.end() ? 0 : entry->second.cost;
}

double AdmittedWork::ComputedUntil(const Payer& payer, double cost) const {
  return ComputedUntil({payer.priority(), payer.name()}, payer.weight(), cost);
}

double AdmittedWork::ComputedUntilEnd(const Request& request) const {
  const auto& [key, own] = *request.payer_;
  double cost = 0;
  for (const int64_t other : own.requests) {
    cost += static_cast<double>(std::min(other, request.cost()));
  }
  return ComputedUntil(key, own.weight, cost);
}

double AdmittedWork::ComputedUntil(const Key& own, double weight, double cost) const {
  double computed = cost;
  for (const auto& [key, other] : payers_) {
    if (key == own || key.first > own.first) continue;
    const auto all = static_cast<double>(other.cost);
    // Of an earlier priority everything comes first.
    computed += key.first < own.first ? all : std::min(all, cost * other.weight / weight);
  }
  return computed;
}

}  // namespace upscaled::server
