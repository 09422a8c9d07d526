// A compiled network for tests without its runs: only its address counts.
#pragma once

#include "engine/backends/backend.h"

namespace upscaled::test {

class FakeExecutable : public Executable {
 public:
  static constexpr int kWeightBytes = 100;

  const Network& network() const override { return network_; }
  Precision precision() const override { return Precision::kExact; }
  size_t WorkspaceBytes(Size) const override { return 0; }
  size_t WeightBytes() const override { return kWeightBytes; }
  Size PreferredTile() const override { return {64, 64}; }

 private:
  TilePlan MakePlan(const Rect& tile, Size image) const override {
    return {.tile = tile, .image = image, .input = tile};
  }

  Network network_;
};

}  // namespace upscaled::test
