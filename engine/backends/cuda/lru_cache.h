// The values of the latest use, up to a number of them.
#pragma once

#include <cstddef>
#include <list>
#include <utility>

namespace upscaled::cuda {

// For few keys: it compares them one by one.
template <typename Key, typename Value>
class LruCache {
 public:
  explicit LruCache(size_t capacity) : capacity_(capacity) {}

  // The value of `key`, or a new one; then the one not used for longest may go.
  // Valid until the next call.
  Value& Get(const Key& key) {
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->first != key) continue;
      entries_.splice(entries_.begin(), entries_, it);
      return it->second;
    }
    if (entries_.size() == capacity_) entries_.pop_back();
    return entries_.emplace_front(key, Value()).second;
  }

  void Clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

 private:
  const size_t capacity_;
  std::list<std::pair<Key, Value>> entries_;  // the last used first
};

}  // namespace upscaled::cuda
