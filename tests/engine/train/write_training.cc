// write_training FOLDER: a mini-batch of general-2x and what becomes of it in training, for
// pytorch_test.py to compare: parameters, input, target and the gradient as floats, the
// losses of 200 steps of Adam as doubles; little endian.
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "engine/model/loader.h"
#include "engine/train/adam.h"
#include "engine/train/learner.h"
#include "engine/train/parameters.h"

namespace upscaled::train {
namespace {

constexpr int kPatchPx = 12, kBatch = 2, kSteps = 200;
constexpr double kRate = 1e-4;
// Of the steps: from the kink of a colour's mean two trainings part, however near they come.
constexpr LossWeights kSmooth = {.charbonnier = 1};

template <typename T>
void Write(const std::string& file, const std::vector<T>& values) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Both of random pixels.
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

std::vector<float> Patches(const Grid& input, const Grid& target, bool of_target) {
  std::vector<float> values;
  for (int patch = 0; patch < kBatch; ++patch) {
    Tensor<float> from({1, input.size}, 3), to({1, target.size}, 3);
    FillPatch(patch, 0, from, to);
    const Tensor<float>& tensor = of_target ? to : from;
    for (int y = 0; y < tensor.grid().size.height; ++y) {
      const float* line = tensor.line(tensor.grid().Line(0, y));
      values.insert(values.end(), line, line + 3 * tensor.grid().size.width);
    }
  }
  return values;
}

int Main(const std::string& folder) {
  const auto network = LoadNetworkFile(UPSCALED_BUNDLED_MODELS "/general-2x/model.param");
  if (!network.ok()) return 1;
  const auto learner = Learner::Create(*network, kPatchPx, kBatch, 1);
  if (!learner.ok()) return 1;
  const int side_px = kPatchPx + 2 * network->pad_px;
  const Grid input{1, {side_px, side_px}}, target{1, {2 * kPatchPx, 2 * kPatchPx}};
  Learned learned(ReadParameters(*network));
  Write(folder + "/parameters", learned.parameters);
  Write(folder + "/input", Patches(input, target, false));
  Write(folder + "/target", Patches(input, target, true));
  std::vector<double> losses;
  std::vector<float> gradient;
  (*learner)->Gradient(learned.parameters, kPsnrLoss, FillPatch, gradient);
  Write(folder + "/gradient", gradient);
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back((*learner)->Gradient(learned.parameters, kSmooth, FillPatch, gradient));
    AdamStep(gradient, kRate, learned);
  }
  Write(folder + "/losses", losses);
  return 0;
}

}  // namespace
}  // namespace upscaled::train

int main(int argc, char** argv) { return argc == 2 ? upscaled::train::Main(argv[1]) : 2; }
