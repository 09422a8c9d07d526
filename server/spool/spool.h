// A budget for bodies, and the thread of its files.
#pragma once

#include <memory>
#include <optional>

#include "server/net/io_thread.h"
#include "server/net/io_thread_link.h"
#include "server/spool/body_budget.h"

namespace upscaled::server {

// The budget may outlive it. Thread safe except Close and destruction.
class Spool {
 public:
  explicit Spool(const BodyBudgetOptions& options) : link_(std::make_shared<IoThreadLink>()) {
    if (options.spool_bytes > 0) {
      link_ = std::make_shared<IoThreadLink>(disk_.emplace("disk"));
    }
    budget_ = std::make_shared<BodyBudget>(options, link_);
  }
  ~Spool() { Close(); }
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  const std::shared_ptr<BodyBudget>& budget() const { return budget_; }
  // Nothing is written from now on: work for the disk is dropped.
  void Close() { link_->Cut(); }

 private:
  std::optional<IoThread> disk_;  // none: the budget has no disk
  std::shared_ptr<IoThreadLink> link_;
  std::shared_ptr<BodyBudget> budget_;
};

}  // namespace upscaled::server
