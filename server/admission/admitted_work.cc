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

double AdmittedWork::Speed() const {
  double cost = 0, seconds = 0;
  for (const auto& [key, payer] : payers_) {
    for (const OfRequest& request : payer.requests) {
      if (request.speed == 0) continue;
      cost += static_cast<double>(request.cost);
      seconds += static_cast<double>(request.cost) / request.speed;
    }
  }
  return seconds > 0 ? cost / seconds : 0;
}

int64_t AdmittedWork::CostUntilAnEnd(const Payer& payer) const {
  const auto entry = payers_.find({payer.priority(), payer.name()});
  return entry == payers_.end() ? 0 : CostUntilAnEnd(entry->second);
}

int64_t AdmittedWork::CostUntilAnEnd(const OfPayer& payer) {
  int64_t requests = 0, least = std::numeric_limits<int64_t>::max();
  for (const OfRequest& request : payer.requests) {
    if (request.cost == 0) continue;
    ++requests;
    least = std::min(least, request.cost);
  }
  return requests == 0 ? 0 : requests * least;
}

double AdmittedWork::ComputedUntilAnEnd(const Payer& payer) const {
  const auto entry = payers_.find({payer.priority(), payer.name()});
  return entry == payers_.end() ? 0 : ComputedUntilAnEnd(entry->first, entry->second);
}

double AdmittedWork::ComputedUntilAnEnd() const {
  double first = 0;
  for (const auto& [key, payer] : payers_) {
    const double computed = ComputedUntilAnEnd(key, payer);
    if (computed > 0 && (first == 0 || computed < first)) first = computed;
  }
  return first;
}

double AdmittedWork::ComputedUntilAnEnd(const Key& key, const OfPayer& own) const {
  const int64_t cost = CostUntilAnEnd(own);
  if (cost == 0) return 0;
  return ComputedUntil(key, own.weight, static_cast<double>(cost), /*others_go_on=*/false);
}

double AdmittedWork::ComputedUntil(const Payer& payer, double cost) const {
  return ComputedUntil({payer.priority(), payer.name()}, payer.weight(), cost,
                       /*others_go_on=*/false);
}

double AdmittedWork::ComputedUntilEnd(const Request& request, bool lasts) const {
  const auto& [key, own] = *request.payer_;
  const int64_t whole = request.place_->cost;
  double cost = 0;
  for (const OfRequest& other : own.requests) {
    if (other.cost == 0) continue;
    cost += static_cast<double>(lasts ? whole : std::min(other.whole, whole));
  }
  return ComputedUntil(key, own.weight, cost, /*others_go_on=*/true);
}

double AdmittedWork::ComputedUntil(const Key& own, double weight, double cost,
                                   bool others_go_on) const {
  double computed = cost;
  for (const auto& [key, other] : payers_) {
    if (other.cost == 0 || key == own || key.first > own.first) continue;
    const auto all = static_cast<double>(other.cost);
    const double share = cost * other.weight / weight;
    // All work of an earlier priority comes first.
    computed += key.first == own.first && (others_go_on || share < all) ? share : all;
  }
  return computed;
}

}  // namespace upscaled::server
