// A network as steps over a mini-batch: its result, and the derivative of a loss by all parameters.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/train/conv_kernel.h"
#include "engine/train/step.h"

namespace upscaled::train {

// One thread's: holds the activations of a mini-batch of a fixed size. The parameters are the
// caller's (parameters.h).
template <typename Real>
class TrainedNetwork {
 public:
  // For `images` inputs of `input` pixels, the border included. UNIMPLEMENTED: a layer cannot be
  // trained; names it. INVALID_ARGUMENT: the input is too small for the network.
  static absl::StatusOr<std::unique_ptr<TrainedNetwork>> Create(const Network& network, Size input,
                                                                int images,
                                                                const ConvDevice& device = {});

  size_t parameter_count() const { return parameter_count_; }
  // Fill it before Forward, and the loss's derivative before Backward; only images' pixels.
  Tensor<Real>& input() { return values_.front(); }
  const Tensor<Real>& result() const { return values_.back(); }
  Tensor<Real>& result_gradient() { return gradients_.back(); }

  // Before the first Forward with these parameters, and after the last Backward: mini-batches in
  // between share the work common to all.
  void Begin(const Real* parameters);
  void End(Real* gradient);
  void Forward(const Real* parameters);
  // After Forward. Adds the loss's derivative to `gradient`; it is complete after End.
  void Backward(const Real* parameters, Real* gradient);

 private:
  struct Node {
    std::unique_ptr<Step<Real>> step;
    std::vector<int> sources;  // indices of tensors; the step's own is its index + 1
    size_t first_parameter = 0;
  };
  TrainedNetwork() = default;

  absl::Status Append(const Layer& layer, const ConvDevice& device,
                      std::vector<int>& tensor_of_layer);
  absl::Status AppendStep(std::unique_ptr<Step<Real>> step, std::vector<int> sources, int channels);

  std::vector<Node> nodes_;
  std::vector<Tensor<Real>> values_, gradients_;  // of the input and of every node
  size_t parameter_count_ = 0;
};

}  // namespace upscaled::train
