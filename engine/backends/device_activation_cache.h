// What devices with memory of their own keep of a tile: all of its tensors, as the last run left
// them, so that the next one goes on at the pooling whose means it brings.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/base/byte_budget.h"

namespace upscaled {

// The part of a device's memory that tiles may keep: the rest is for those who compute.
inline constexpr size_t kCachedShare = 4;

// A backend's own adds the tensors.
class DeviceActivationCache : public ActivationCache {
 public:
  explicit DeviceActivationCache(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  DeviceActivationCache(const DeviceActivationCache&) = delete;
  DeviceActivationCache& operator=(const DeviceActivationCache&) = delete;
  ~DeviceActivationCache() override { budget_->Return(taken_); }

  // Whether `task` may use it: all runs before it have, to their ends, and its tensors, of
  // `bytes`, are in the budget. Until End it is of no use to others.
  bool Begin(const TileTask& task, size_t bytes) {
    if (std::exchange(runs_, kNoRuns) != task.means.size()) {
      Drop();
      return false;
    }
    if (taken_ > 0) return true;
    if (!budget_->Take(bytes)) return false;
    taken_ = bytes;
    return true;
  }
  // After a run whose commands are all done: the next one may be another stream's.
  void End(const TileTask& task) { runs_ = task.means.size() + 1; }
  // For good; others may take its bytes.
  void Drop() {
    FreeTensors();
    budget_->Return(std::exchange(taken_, 0));
  }

  // The layer that a run with such a memory begins at. `poolings`: ListPoolings.
  static int FirstLayer(const std::vector<int>& poolings, const TileTask& task) {
    return task.means.empty() ? 0 : poolings[task.means.size() - 1];
  }

 private:
  static constexpr size_t kNoRuns = static_cast<size_t>(-1);

  virtual void FreeTensors() = 0;

  const std::shared_ptr<ByteBudget> budget_;
  size_t taken_ = 0;
  size_t runs_ = 0;  // that have gone into it
};

}  // namespace upscaled
