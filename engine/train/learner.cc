#include "engine/train/learner.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/base/status_macros.h"

namespace upscaled::train {
namespace {

double SquaredError(const Tensor<float>& result, const Tensor<float>& target) {
  const Grid& grid = result.grid();
  double sum = 0;
  for (int y = 0; y < grid.size.height; ++y) {
    const float* a = result.line(grid.Line(0, y));
    const float* b = target.line(grid.Line(0, y));
    for (int i = 0; i < grid.size.width * result.stride(); ++i) {
      const double error = std::clamp(a[i], 0.0f, 1.0f) - b[i];
      sum += error * error;
    }
  }
  return sum / static_cast<double>(grid.size.Area() * result.channels());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Learner>> Learner::Create(const Network& network, int patch_px,
                                                         int batch, int threads,
                                                         const ConvDevice& device) {
  std::unique_ptr<Learner> learner(new Learner);
  learner->batch_ = batch;
  threads = std::clamp(threads, 1, batch);
  const int side_px = patch_px + 2 * network.pad_px;
  for (int i = 0; i < threads; ++i) {
    Share share;
    share.first = batch * i / threads;
    share.patches = batch * (i + 1) / threads - share.first;
    ASSIGN_OR_RETURN(share.network,
                     TrainedNetwork<float>::Create(network, {side_px, side_px}, 1, device));
    share.target = Tensor<float>(share.network->result().grid(), 3);
    learner->shares_.push_back(std::move(share));
  }
  return learner;
}

void Learner::ForEachShare(const std::function<void(Share&)>& work) {
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < shares_.size(); ++i) threads.emplace_back(work, std::ref(shares_[i]));
  work(shares_[0]);
}

double Learner::Gradient(std::span<const float> parameters, const LossWeights& weights,
                         const FillPatch& fill, std::vector<float>& gradient) {
  ForEachShare([&](Share& share) {
    TrainedNetwork<float>& network = *share.network;
    share.loss = 0;
    share.gradient.assign(parameters.size(), 0.0f);
    network.Begin(parameters.data());
    for (int i = 0; i < share.patches; ++i) {
      fill(share.first + i, 0, network.input(), share.target);
      network.Forward(parameters.data());
      share.loss +=
          ComputeLoss(weights, network.result(), share.target, batch_, network.result_gradient());
      network.Backward(parameters.data(), share.gradient.data());
    }
    network.End(share.gradient.data());
  });
  gradient.assign(parameters.size(), 0.0f);
  double loss = 0;
  for (const Share& share : shares_) {  // in this order, so that the sum is the same every time
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += share.gradient[i];
    loss += share.loss;
  }
  return loss;
}

std::vector<double> Learner::SquaredErrors(std::span<const float> parameters, const FillPatch& fill,
                                           int patches) {
  std::vector<double> errors(patches);
  ForEachShare([&](Share& share) {
    share.network->Begin(parameters.data());
    for (int first = share.first; first < patches; first += batch_) {
      for (int i = first; i < std::min(first + share.patches, patches); ++i) {
        fill(i, 0, share.network->input(), share.target);
        share.network->Forward(parameters.data());
        errors[i] = SquaredError(share.network->result(), share.target);
      }
    }
  });
  return errors;
}

}  // namespace upscaled::train
