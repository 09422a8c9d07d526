// write_training FOLDER: mini-batches and what becomes of them in training, for pytorch_test.py to
// compare: of general-2x and of a network with squeeze and excite ("general-2x/", "gated/") the
// parameters, and for each of five batches ("0/" to "4/") input, target and the gradient as floats;
// the losses of 200 steps of Adam of general-2x's first batch as doubles; little endian.
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/loader.h"
#include "engine/train/adam.h"
#include "engine/train/learner.h"
#include "engine/train/parameters.h"

namespace upscaled::train {
namespace {

constexpr int kPatchPx = 12, kBatch = 2, kBatches = 5, kSteps = 200;
constexpr double kRate = 1e-4;
// The steps' loss: from the kink of a colour's mean two trainings part, however near they come.
constexpr LossWeights kSmooth = {.charbonnier = 1};

template <typename T>
void Write(const std::string& file, const std::vector<T>& values) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Both of random pixels; `patch` counts those of all batches.
void FillPatch(int patch, int image, Tensor<float>& input, Tensor<float>& target) {
  std::mt19937 random(patch + 1);
  for (Tensor<float>* tensor : {&input, &target}) {
    for (int y = 0; y < tensor->grid().size.height; ++y) {
      float* line = tensor->line(tensor->grid().Line(image, y));
      for (int i = 0; i < 3 * tensor->grid().size.width; ++i) {
        line[i] = static_cast<float>(random() >> 8) / static_cast<float>(1 << 24);
      }
    }
  }
}

std::vector<float> Patches(const Grid& input, const Grid& target, int batch, bool of_target) {
  std::vector<float> values;
  for (int patch = 0; patch < kBatch; ++patch) {
    Tensor<float> from({1, input.size}, 3), to({1, target.size}, 3);
    FillPatch(batch * kBatch + patch, 0, from, to);
    const Tensor<float>& tensor = of_target ? to : from;
    for (int y = 0; y < tensor.grid().size.height; ++y) {
      const float* line = tensor.line(tensor.grid().Line(0, y));
      values.insert(values.end(), line, line + 3 * tensor.grid().size.width);
    }
  }
  return values;
}

// Three channels to eight by 3x3 and a sigmoid, squeezed to four and excited, to twelve, shuffled.
Network GatedNetwork() {
  Network network{.scale = 2, .pad_px = 2};
  std::mt19937 random(1);
  const auto add = [&](Op op, std::vector<int> inputs, int in, int out, int kernel_px,
                       Activation activation) {
    Layer layer{.op = op,
                .name = "layer",
                .inputs = std::move(inputs),
                .out_channels = out,
                .in_channels = in,
                .kernel_px = kernel_px,
                .activation = activation};
    if (op == Op::kConv || op == Op::kFullyConnected) {
      layer.weights.resize(size_t{1} * kernel_px * kernel_px * in * out);
      layer.bias.resize(out);
    }
    for (auto* values : {&layer.weights, &layer.bias}) {
      for (float& value : *values) {
        value = static_cast<float>(random() >> 8) / static_cast<float>(1 << 24) - 0.5f;
      }
    }
    network.layers.push_back(std::move(layer));
  };
  network.layers.push_back({.op = Op::kInput, .name = "in", .out_channels = 3});
  add(Op::kConv, {0}, 3, 8, 3, Activation::kSigmoid);
  add(Op::kGlobalAveragePool, {1}, 8, 8, 1, Activation::kNone);
  add(Op::kFullyConnected, {2}, 8, 4, 1, Activation::kRelu);
  add(Op::kFullyConnected, {3}, 4, 8, 1, Activation::kSigmoid);
  add(Op::kMul, {1, 4}, 8, 8, 1, Activation::kNone);
  add(Op::kConv, {5}, 8, 12, 3, Activation::kNone);
  add(Op::kPixelShuffle, {6}, 12, 3, 1, Activation::kNone);
  network.layers.back().factor = 2;
  return network;
}

// Writes what is compared of any network, each batch to a folder of its own; gives the learner.
std::unique_ptr<Learner> WriteGradients(const std::string& folder, const Network& network) {
  auto learner = Learner::Create(network, kPatchPx, kBatch, 1);
  if (!learner.ok()) return nullptr;
  const int side_px = kPatchPx + 2 * network.pad_px;
  const Grid input{1, {side_px, side_px}}, target{1, {2 * kPatchPx, 2 * kPatchPx}};
  const std::vector<float> parameters = ReadParameters(network);
  Write(folder + "/parameters", parameters);
  for (int batch = 0; batch < kBatches; ++batch) {
    const std::string files = folder + "/" + std::to_string(batch) + "/";
    const auto fill = [batch](int patch, int image, Tensor<float>& from, Tensor<float>& to) {
      FillPatch(batch * kBatch + patch, image, from, to);
    };
    std::vector<float> gradient;
    (*learner)->Gradient(parameters, kPsnrLoss, fill, gradient);
    Write(files + "input", Patches(input, target, batch, false));
    Write(files + "target", Patches(input, target, batch, true));
    Write(files + "gradient", gradient);
  }
  return *std::move(learner);
}

int Main(const std::string& folder) {
  const auto network = LoadNetworkFile(UPSCALED_BUNDLED_MODELS "/general-2x/model.param");
  if (!network.ok()) return 1;
  const auto learner = WriteGradients(folder + "/general-2x", *network);
  if (learner == nullptr || WriteGradients(folder + "/gated", GatedNetwork()) == nullptr) return 1;
  Learned learned(ReadParameters(*network));
  std::vector<double> losses;
  std::vector<float> gradient;
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(learner->Gradient(learned.parameters, kSmooth, FillPatch, gradient));
    AdamStep(gradient, kRate, learned);
  }
  Write(folder + "/losses", losses);
  return 0;
}

}  // namespace
}  // namespace upscaled::train

int main(int argc, char** argv) { return argc == 2 ? upscaled::train::Main(argv[1]) : 2; }
