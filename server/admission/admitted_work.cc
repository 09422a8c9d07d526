#include "server/admission/admitted_work.h"

#include <algorithm>
#include <limits>

namespace upscaled::server {

AdmittedWork::Request AdmittedWork::Add(const Payer& payer) {
  const auto entry = payers_.try_emplace({payer.priority(), payer.name()}).first;
  entry->second.weight = payer.weight();
  std::list<OfRequest>& requests = entry->second.requests;
  return {entry, requests.insert(requests.end(), {.parts = 1})};
}

AdmittedWork::Request AdmittedWork::AddPart(const Request& request) {
  ++request.place_->parts;
  return {request.payer_, request.place_};
}

void AdmittedWork::Set(Request& request, int64_t cost) {
  const int64_t more = cost - request.cost_;
  OfRequest& whole = *request.place_;
  request.cost_ = cost;
  whole.cost += more;
  whole.whole = std::max(whole.whole, whole.cost);
  request.payer_->second.cost += more;
  cost_ += more;
}

void AdmittedWork::Remove(Request& request) {
  Set(request, 0);
  if (--request.place_->parts > 0) return;
  request.payer_->second.requests.erase(request.place_);
  if (request.payer_->second.requests.empty()) payers_.erase(request.payer_);
}

int64_t AdmittedWork::CostOf(const Payer& payer) const {
  const auto entry = payers_.find({payer.priority(), payer.name()});
  return entry == payers_.end() ? 0 : entry->second.cost;
}

int64_t AdmittedWork::CostUntilAnEnd(const Payer& payer) const {
  const auto entry = payers_.find({payer.priority(), payer.name()});
  if (entry == payers_.end()) return 0;
  int64_t requests = 0, least = std::numeric_limits<int64_t>::max();
  for (const OfRequest& request : entry->second.requests) {
    if (request.cost == 0) continue;
    ++requests;
    least = std::min(least, request.cost);
  }
  return requests == 0 ? 0 : requests * least;
}

double AdmittedWork::ComputedUntil(const Payer& payer, double cost) const {
  return ComputedUntil({payer.priority(), payer.name()}, payer.weight(), cost, /*lasts=*/false);
}

double AdmittedWork::ComputedUntilEnd(const Request& request) const {
  const auto& [key, own] = *request.payer_;
  double cost = 0;
  for (const OfRequest& other : own.requests) {
    if (other.cost > 0) cost += static_cast<double>(std::min(other.whole, request.place_->cost));
  }
  return ComputedUntil(key, own.weight, cost, /*lasts=*/true);
}

double AdmittedWork::ComputedUntil(const Key& own, double weight, double cost, bool lasts) const {
  double computed = cost;
  for (const auto& [key, other] : payers_) {
    if (other.cost == 0 || key == own || key.first > own.first) continue;
    const auto all = static_cast<double>(other.cost);
    const double share = cost * other.weight / weight;
    // All work of an earlier priority comes first.
    computed += key.first == own.first && (lasts || share < all) ? share : all;
  }
  return computed;
}

}  // namespace upscaled::server
