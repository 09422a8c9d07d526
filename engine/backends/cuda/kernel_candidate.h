// A single convolution, computed by one kernel, as tuning measures it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backends/cuda/batch_views.h"
#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/backends/cuda/program.h"
#include "engine/backends/cuda/step_kernel.h"
#include "engine/graph/device_candidate.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

class KernelCandidate final : public DeviceCandidate {
 public:
  // A layer of one input, of this size, with a kernel for it.
  KernelCandidate(std::shared_ptr<Context> context, const Layer& layer, Precision precision,
                  const ConvKernel& kernel, Size input);

 private:
  absl::Status Prepare(const Layer& layer, const ConvKernel& kernel, Size input);
  absl::Status Place(TensorView& tensor, DeviceMemory& memory, Size size, int channels);
  absl::StatusOr<absl::Duration> RunOnce() override;
  absl::StatusOr<std::vector<float>> ComputeFrom(std::span<const float> input) override;

  const std::shared_ptr<Context> context_;
  const Precision precision_;
  Program program_;  // the layer behind an input of its channels
  std::optional<StepKernel> kernel_;
  StreamHandle queue_;
  EventHandle begin_, end_;
  DeviceMemory src_, dst_;
  BatchViews views_;  // views of src_ and dst_
};

}  // namespace upscaled::cuda
