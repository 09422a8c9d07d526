// One layer alone, computed by one kernel: what tuning measures.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/graph/kernel_choice.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/kernel_list.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/backends/opencl/tensor.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

// A device that refuses the kernel takes forever and computes nothing.
class KernelCandidate final : public LayerCandidate {
 public:
  // A layer of one input, of this size.
  KernelCandidate(std::shared_ptr<Context> context, const Layer& layer, Precision precision,
                  const KernelChoice& choice, Size input);

  void Run() override;
  std::optional<absl::Duration> LastRunTime() const override { return last_run_time_; }
  std::vector<float> Compute(std::span<const float> input) override;

 private:
  absl::Status Prepare(const Layer& layer, const KernelChoice& choice, Size input);
  // The time of the kernel on the device.
  absl::StatusOr<double> RunOnce();
  absl::StatusOr<std::vector<float>> ComputeFrom(std::span<const float> input);
  absl::StatusOr<cl::Buffer> MakeBuffer(size_t bytes) const;

  const std::shared_ptr<Context> context_;
  const Precision precision_;
  absl::Status status_;
  std::optional<Launcher> launcher_;
  std::unique_ptr<LayerKernel> kernel_;
  Tensor src_, dst_;
  absl::Duration last_run_time_ = absl::InfiniteDuration();
};

}  // namespace upscaled::opencl
