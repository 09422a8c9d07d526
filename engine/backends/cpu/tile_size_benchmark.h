// A program in tiles of several sizes: what tuning measures.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernels/isa.h"
#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled::cpu {

class TileSizeBenchmark final : public TileCandidates {
 public:
  // `program`: of `network`; both outlive it.
  TileSizeBenchmark(const Network& network, const Program& program, Isa isa,
                    std::vector<Size> tiles)
      : network_(network), program_(program), isa_(isa), tiles_(std::move(tiles)) {}

  std::string device() const override;
  std::string network() const override;
  std::vector<Size> tiles() const override { return tiles_; }
  double MacsPerPixel() const override;
  // The run for the result, of gray pixels with other tiles all around.
  double Run(Size tile) override;

 private:
  const Network& network_;
  const Program& program_;
  const Isa isa_;
  const std::vector<Size> tiles_;
  HugeBuffer workspace_;
};

}  // namespace upscaled::cpu
