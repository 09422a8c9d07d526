// Admitted work before it is computed, by payer, and the others' work before it. Follows the order
// of server/batching: payers by their weights, the requests of each equally, background work last.
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
    int64_t whole = 0;  // its largest cost so far
    double speed = 0;   // of all devices, in multiply-adds a second; 0: not known
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

  // Adds a request of no cost yet, to be removed.
  Request Add(const Payer& payer);
  // Adds another part of the same request, computed after the earlier ones. You may remove them in
  // any order.
  Request AddPart(const Request& request);
  void Set(Request& request, int64_t cost);
  // The speed of all devices, in multiply-adds a second; 0: not known.
  void SetSpeed(Request& request, double speed) { request.place_->speed = speed; }
  void Remove(Request& request);

  int64_t cost() const { return cost_; }     // of all
  int64_t CostOf(const Payer& payer) const;  // of one
  // The mean speed of all devices for the work with a known speed; 0 without such work.
  double Speed() const;
  // All payers' work until `cost` of the payer's is computed, if no more work comes.
  double ComputedUntil(const Payer& payer, double cost) const;
  // The payer's work until the first of its requests has ended. They share equally. Zero: no payer
  // has work.
  int64_t CostUntilAnEnd(const Payer& payer) const;
  // All payers' work until then, or until the first of all requests has ended.
  double ComputedUntilAnEnd(const Payer& payer) const;
  double ComputedUntilAnEnd() const;
  // The same until all parts of the request are computed. Other payers get their shares. The
  // payer's other requests get their whole cost, but no more than this one. `lasts`: each finished
  // request is followed by a similar one, so they get as much as this one.
  double ComputedUntilEnd(const Request& request, bool lasts = false) const;

 private:
  static int64_t CostUntilAnEnd(const OfPayer& payer);
  double ComputedUntilAnEnd(const Key& key, const OfPayer& own) const;
  // `others_go_on`: the others get their shares all the time; otherwise no more than their work.
  double ComputedUntil(const Key& own, double weight, double cost, bool others_go_on) const;

  Payers payers_;  // with requests
  int64_t cost_ = 0;
};

}  // namespace upscaled::server
