#include "server/admission/admitted_work.h"

#include <algorithm>

namespace upscaled::server {

AdmittedWork::Request AdmittedWork::Add(const Payer& payer) {
  const auto entry = payers_.try_emplace({payer.priority(), payer.name()}).first;
  entry->second.weight = payer.weight();
  return {entry, entry->second.requests.emplace(entry->second.requests.end())};
}

void AdmittedWork::Set(const Request& request, int64_t cost) {
  const int64_t more = cost - request.place_->cost;
  request.place_->cost = cost;
  request.place_->whole = std::max(request.place_->whole, cost);
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
  return ComputedUntil({payer.priority(), payer.name()}, payer.weight(), cost, /*lasts=*/false);
}

double AdmittedWork::ComputedUntilEnd(const Request& request) const {
  const auto& [key, own] = *request.payer_;
  double cost = 0;
  for (const OfRequest& other : own.requests) {
    if (other.cost > 0) cost += static_cast<double>(std::min(other.whole, request.cost()));
  }
  return ComputedUntil(key, own.weight, cost, /*lasts=*/true);
}

double AdmittedWork::ComputedUntil(const Key& own, double weight, double cost, bool lasts) const {
  double computed = cost;
  for (const auto& [key, other] : payers_) {
    if (other.cost == 0 || key == own || key.first > own.first) continue;
    const auto all = static_cast<double>(other.cost);
    const double share = cost * other.weight / weight;
    // Of an earlier priority everything comes first.
    computed += key.first == own.first && (lasts || share < all) ? share : all;
  }
  return computed;
}

}  // namespace upscaled::server
