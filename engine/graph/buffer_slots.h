// The contents of a few buffers, for backends with one layer after the other.
#pragma once

#include <span>
#include <vector>

namespace upscaled {

// From the writing step to the last using one, both included.
struct Lifetime {
  int first = 0;
  int last = 0;
};

// The slot (0, 1, ...) of each; no two share one at a time. In order of `first`.
std::vector<int> AssignSlots(std::span<const Lifetime> lifetimes);

}  // namespace upscaled
