#include "engine/graph/buffer_slots.h"

#include <algorithm>

namespace upscaled {

std::vector<int> AssignSlots(std::span<const Lifetime> lifetimes) {
  std::vector<int> busy_until;  // for each slot
  std::vector<int> slots;
  for (const Lifetime& lifetime : lifetimes) {
    const auto free_slot = std::find_if(busy_until.begin(), busy_until.end(),
                                        [&](int last) { return last < lifetime.first; });
    slots.push_back(static_cast<int>(free_slot - busy_until.begin()));
    if (free_slot == busy_until.end()) {
      busy_until.push_back(lifetime.last);
    } else {
      *free_slot = lifetime.last;
    }
  }
  return slots;
}

}  // namespace upscaled
