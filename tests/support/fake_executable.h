// A compiled network that nobody runs: only its address counts.
#pragma once

#include "engine/backends/backend.h"

namespace upscaled::test {

class FakeExecutable : public Executable {
 public:
  const Network& network() const override { return network_; }
  Precision precision() const override { return Precision::kExact; }
  Rect InputRect(const Rect& tile, Size) const override { return tile; }
  size_t WorkspaceBytes(Size) const override { return 0; }
  size_t WeightBytes() const override { return 0; }
  Size PreferredTile() const override { return {64, 64}; }

 private:
  Network network_;
};

}  // namespace upscaled::test
