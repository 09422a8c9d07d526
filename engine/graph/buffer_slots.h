// Which of a few buffers holds what, for backends that compute layer after layer.
#pragma once

#include <span>
#include <vector>

namespace upscaled {

// From the step that writes something to the last one that uses it, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
};

// For each the slot (0, 1, ...) that holds it; no two share one at a time. In order of `first`.
std::vector<int> AssignSlots(std::span<const Lifetime> lifetimes);

}  // namespace upscaled
