// One layer by itself, computed by one kernel as a tile computes it: what benches and tuning
// measure.
#pragma once

#include <span>
#include <vector>

#include "engine/backends/cpu/program.h"
#include "engine/backends/cpu/row_schedule.h"
#include "engine/backends/cpu/workspace.h"
#include "engine/graph/kernel_choice.h"

namespace upscaled::cpu {

class KernelCandidate final : public LayerCandidate {
 public:
  // A layer of one input, which `kernel` supports, for an input of this size; kernel.RunsOn(isa).
  // Throws std::bad_alloc when memory is out.
  KernelCandidate(const Layer& layer, const KernelEntry& kernel, Isa isa, Size input);
  KernelCandidate(const KernelCandidate&) = delete;
  KernelCandidate& operator=(const KernelCandidate&) = delete;

  Size output_size() const { return {plan_.regions.back().width, plan_.regions.back().height}; }

  // From the rows that the input's ring happens to hold.
  void Run() override;
  std::vector<float> Compute(std::span<const float> input) override;

 private:
  void RunStep(const RowSchedule::Step& step);
  bool IsTried(int layer) const;  // the layer or its prelude

  Program
      program_;  // the input, the kernel's prelude if it has one, the layer, a copy of it in fp32
  TilePlan plan_;
  RowSchedule schedule_;
  HugeBuffer workspace_;
};

}  // namespace upscaled::cpu
