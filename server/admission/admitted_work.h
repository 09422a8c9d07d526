// Work that is admitted and not yet computed, by payer, and how much of others' comes before it: as
// server/batching serves it, between payers by their weights, between the requests of each equally,
// background work last.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "server/base/payer.h"

namespace upscaled::server {

// Not thread safe. Costs are multiply-adds.
class AdmittedWork {
  struct OfRequest {
    int parts = 0;
    int64_t cost = 0;   // of all parts, not yet computed
    int64_t whole = 0;  // the most that it has been
    double speed = 0;   // at which all devices compute it, in multiply-adds a second; 0: not known
  };
  struct OfPayer {
    double weight = 1;
    int64_t cost = 0;
    std::list<OfRequest> requests;
  };
  using Key = std::pair<Priority, std::string>;
  using Payers = std::map<Key, OfPayer>;

 public:
  // One request's work, or a part of it.
  class Request {
   public:
    int64_t cost() const { return cost_; }

   private:
    friend class AdmittedWork;
    Request(Payers::iterator payer, std::list<OfRequest>::iterator place)
        : payer_(payer), place_(place) {}
    Payers::iterator payer_;
    std::list<OfRequest>::iterator place_;
    int64_t cost_ = 0;
  };

  // To be removed; of no cost yet.
  Request Add(const Payer& payer);
  // Another part of the same request, computed after those that it has. Any of them may be the last
  // to be removed.
  Request AddPart(const Request& request);
  void Set(Request& request, int64_t cost);
  // At which all devices compute it, in multiply-adds a second; 0: not known.
  void SetSpeed(Request& request, double speed) { request.place_->speed = speed; }
  void Remove(Request& request);

  int64_t cost() const { return cost_; }     // of all
  int64_t CostOf(const Payer& payer) const;  // of one
  // At which all devices compute what is there, as far as that is known of it; 0: of nothing.
  double Speed() const;
  // The work of all payers that is computed until `cost` of the payer's is; no more work comes.
  double ComputedUntil(const Payer& payer, double cost) const;
  // The work of the payer that is computed until the first of its requests has ended, which get
  // equal parts of what it gets; zero: no payer has work.
  int64_t CostUntilAnEnd(const Payer& payer) const;
  // The work of all payers until then, or until the first of all requests has ended.
  double ComputedUntilAnEnd(const Payer& payer) const;
  double ComputedUntilAnEnd() const;
  // The same until the request is, with all its parts. Other payers who have work get their shares;
  // its payer's other requests get what they are as a whole and no more than it, or, where the load
  // `lasts` and what ends is followed by its like, as much as it.
  double ComputedUntilEnd(const Request& request, bool lasts = false) const;

 private:
  static int64_t CostUntilAnEnd(const OfPayer& payer);
  double ComputedUntilAnEnd(const Key& key, const OfPayer& own) const;
  // With what others get meanwhile: no more than they have, or more where they go on.
  double ComputedUntil(const Key& own, double weight, double cost, bool others_go_on) const;

  Payers payers_;  // that have requests
  int64_t cost_ = 0;
};

}  // namespace upscaled::server
