// A budget for bodies, and the queue of work for their files.
#pragma once

#include <memory>

#include "server/base/timer.h"
#include "server/spool/body_budget.h"
#include "server/spool/disk_queue.h"

namespace upscaled::server {

// The budget may outlive it. Nothing is written after its end: work for the disk is dropped.
class Spool {
 public:
  // `timer` must outlive it.
  Spool(const BodyBudgetOptions& options, Timer& timer)
      : disk_(std::make_shared<DiskQueue>(timer)),
        budget_(std::make_shared<BodyBudget>(options, disk_)) {}
  ~Spool() { disk_->Close(); }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const std::shared_ptr<BodyBudget>& budget() const { return budget_; }

 private:
  const std::shared_ptr<DiskQueue> disk_;
  const std::shared_ptr<BodyBudget> budget_;
};

}  // namespace upscaled::server
