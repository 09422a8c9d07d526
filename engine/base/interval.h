// From the first begin to the last end of something done bit by bit.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace upscaled {

struct Interval {
  absl::Time begin = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();

  bool empty() const { return end < begin; }
  void Include(absl::Time from, absl::Time to) {
    begin = std::min(begin, from);
    end = std::max(end, to);
  }
};

}  // namespace upscaled
