// A device's data of one tile, from one pass over its image to the next.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "engine/base/byte_budget.h"

namespace upscaled {

// The activation caches' part of a device's memory; the rest is for computing.
inline constexpr size_t kCachedShare = 4;

// Keeps one tile's activations between passes. The next pass brings the means of a global
// average pooling, and resumes there. Give one cache to all passes of a tile, including the
// first, but never to two at once. A device without support ignores the cache, and the result is
// the same. The backend's subclass adds the tensors.
class ActivationCache {
 public:
  // `owner`: the owner of its activations; an address for comparison only. `budget`: which the
  // tensors come out of; null where the host's memory holds them, which is planned elsewhere.
  explicit ActivationCache(const void* owner, std::shared_ptr<ByteBudget> budget = nullptr)
      : owner_(owner), budget_(std::move(budget)) {}
  ActivationCache(const ActivationCache&) = delete;
  ActivationCache& operator=(const ActivationCache&) = delete;
  virtual ~ActivationCache() { GiveBack(); }

  // Whether pass number `pass` of `owner` may use it: all passes before it have, to their ends, and
  // the tensors, of `bytes`, are in the budget. Until End it is of no use to others.
  bool Begin(const void* owner, size_t pass, size_t bytes) {
    if (owner != owner_) return false;
    if (std::exchange(passes_, kNoPasses) != pass) {
      Drop();
      return false;
    }
    if (budget_ == nullptr || taken_ > 0) return true;
    if (!budget_->Take(bytes)) return false;
    taken_ = bytes;
    return true;
  }
  // After a pass with all commands done: the next one may be another stream's.
  void End(size_t pass) { passes_ = pass + 1; }
  // For good; others may take its bytes.
  void Drop() {
    FreeTensors();
    GiveBack();
  }

 private:
  static constexpr size_t kNoPasses = static_cast<size_t>(-1);

  virtual void FreeTensors() = 0;

  void GiveBack() {
    if (budget_ != nullptr) budget_->Return(std::exchange(taken_, 0));
  }

  const void* const owner_;
  const std::shared_ptr<ByteBudget> budget_;
  size_t taken_ = 0;
  size_t passes_ = 0;  // that have gone into it
};

}  // namespace upscaled
