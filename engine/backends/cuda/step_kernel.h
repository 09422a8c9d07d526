// A node of a program, bound to its kernel and to its weights on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/batch_views.h"
#include "engine/backends/cuda/context.h"
#include "engine/backends/cuda/handles.h"
#include "engine/backends/cuda/kernels/conv_kernels.h"
#include "engine/backends/cuda/program.h"
#include "engine/model/network.h"
#include "engine/model/precision.h"

namespace upscaled::cuda {

// The layers of a node's kernel, for nodes with one.
FusedLayers FusedOf(const Network& network, const Node& node);

// Immutable, thread safe.
class StepKernel {
 public:
  // The kernel of node number `node`. `network` has the weights missing in `program`. `kernel`: of
  // CudaKernelSet; null if the node needs no kernel. RESOURCE_EXHAUSTED: no room for weights.
  static absl::StatusOr<StepKernel> Create(const std::shared_ptr<Context>& context,
                                           const Network& network, const Program& program,
                                           size_t node, Precision precision,
                                           const KernelInfo* kernel);

  // Computes only the needed part. The context is entered.
  absl::Status Enqueue(Context& context, const BatchViews& views, cudaStream_t stream) const;

  // Whether the step adds up views.sums.
  bool AddsSums(const BatchViews& views) const {
    return node_->layer() == views.summed_layer && conv_kernel_ != nullptr &&
           conv_kernel_->adds_sums && shape_.out_stride == 1;
  }

  // The convolution's kernel; null for other kinds.
  const ConvKernel* conv_kernel() const { return conv_kernel_; }
  std::string_view name() const;  // human-readable
  const Node& node() const { return *node_; }
  size_t WeightBytes() const {
    return weights_.bytes() + constants_.bytes() + input_channels_.bytes();
  }
  // The bytes of weights that a gate multiplies; 0 without one.
  size_t GatedBytes() const { return node_->gate < 0 ? 0 : weights_.bytes(); }

 private:
  StepKernel(const Program& program, size_t node, Precision precision)
      : program_(&program),
        node_(&program.nodes[node]),
        kind_(program.kinds[node]),
        precision_(precision) {}

  absl::Status Pack(const std::shared_ptr<Context>& context, const Network& network,
                    const KernelInfo* kernel);
  cudaError_t Launch(const BatchViews& views, cudaStream_t stream) const;
  cudaError_t LaunchFirst(const BatchViews& views, cudaStream_t stream) const;
  cudaError_t LaunchConv(const BatchViews& views, cudaStream_t stream) const;
  cudaError_t LaunchGatedConv(const BatchViews& views, const ConvParams& params,
                              cudaStream_t stream) const;
  int64_t WeightCount() const { return input_channels_.bytes() / sizeof(uint16_t); }
  cudaError_t LaunchElementwiseStep(const BatchViews& views, cudaStream_t stream) const;

  const Layer& layer() const { return program_->network.layers[node_->layer()]; }

  const Program* program_;  // which outlives this
  const Node* node_;
  NodeKind kind_;
  Precision precision_;
  DeviceLimits limits_;
  bool half_epilogue_ = false;
  const ConvKernel* conv_kernel_ = nullptr;
  ConvShape shape_;  // a convolution's
  ActivationParams activation_;
  bool half_weights_ = false;
  DeviceMemory weights_, constants_;
  DeviceMemory input_channels_;  // with a gate: InputChannels
};

}  // namespace upscaled::cuda
