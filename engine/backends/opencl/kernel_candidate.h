// A single layer computed by one kernel, as tuning measures it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/backends/opencl/context.h"
#include "engine/backends/opencl/kernel_list.h"
#include "engine/backends/opencl/launcher.h"
#include "engine/backends/opencl/tensor.h"
#include "engine/graph/device_candidate.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::opencl {

class KernelCandidate final : public DeviceCandidate {
 public:
  // A layer of one input, of this size.
  KernelCandidate(std::shared_ptr<Context> context, const Layer& layer, Precision precision,
                  const KernelChoice& choice, Size input);

 private:
  absl::Status Prepare(const Layer& layer, const KernelChoice& choice, Size input);
  absl::StatusOr<absl::Duration> RunOnce() override;
  absl::StatusOr<std::vector<float>> ComputeFrom(std::span<const float> input) override;
  absl::StatusOr<cl::Buffer> MakeBuffer(size_t bytes) const;

  const std::shared_ptr<Context> context_;
  const Precision precision_;
  std::optional<Launcher> launcher_;
  std::unique_ptr<LayerKernel> kernel_;
  Tensor src_, dst_;
};

}  // namespace upscaled::opencl
