// A network and a mini-batch, divided among threads.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/train/loss.h"
#include "engine/train/trained_network.h"

namespace upscaled::train {

// Writes patch number `patch` of those asked for as image `image` of both tensors: the input with
// the network's border around it, and the wanted result. Called on several threads.
using FillPatch =
    std::function<void(int patch, int image, Tensor<float>& input, Tensor<float>& target)>;

// The same bits for the same parameters, patches and number of threads.
class Learner {
 public:
  // For mini-batches of `batch` patches of patch_px x patch_px source pixels. Errors are
  // TrainedNetwork::Create's.
  static absl::StatusOr<std::unique_ptr<Learner>> Create(const Network& network, int patch_px,
                                                         int batch, int threads,
                                                         const ConvDevice& device = {});

  int batch() const { return batch_; }
  // The loss over a mini-batch; its derivative goes to `gradient`.
  double Gradient(std::span<const float> parameters, const LossWeights& weights,
                  const FillPatch& fill, std::vector<float>& gradient);
  // The mean squared error of each of `patches` patches, of results clamped to 0..1.
  std::vector<double> SquaredErrors(std::span<const float> parameters, const FillPatch& fill,
                                    int patches);

 private:
  // A thread's part of the mini-batch: one patch after the other, so all activations of one stay as
  // near as they can.
  struct Share {
    int first = 0, patches = 0;
    std::unique_ptr<TrainedNetwork<float>> network;
    Tensor<float> target;
    std::vector<float> gradient;
    double loss = 0;
  };
  Learner() = default;

  // Runs `work` for every share, on a thread each.
  void ForEachShare(const std::function<void(Share&)>& work);

  int batch_ = 0;
  std::vector<Share> shares_;
};

}  // namespace upscaled::train
