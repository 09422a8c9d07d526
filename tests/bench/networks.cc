#include "tests/bench/networks.h"

#include <cmath>
#include <filesystem>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/loader.h"
#include "engine/model/repository.h"
#include "tests/bench/branching_networks.h"

namespace upscaled::bench {
namespace {

constexpr char kRandomPrefix[] = "random:";

// Weights with constant variance of the activations: no layer overflows or dies out. The seed is
// fixed: benches compare runs.
void FillWeights(Layer& layer) {
  static std::mt19937 random(1);
  const int taps = layer.kernel_px * layer.kernel_px;
  std::normal_distribution<float> normal(0.0f, std::sqrt(2.0f / (taps * layer.in_channels)));
  layer.weights.resize(static_cast<size_t>(taps) * layer.in_channels * layer.out_channels);
  for (float& w : layer.weights) w = normal(random);
  layer.bias.resize(layer.out_channels);
  for (float& b : layer.bias) b = 0.1f * normal(random);
}

Layer Input() {
  Layer layer;
  layer.op = Op::kInput;
  layer.name = "input";
  layer.out_channels = 3;
  return layer;
}

// Layers in a row, each fed by the one before.
class Chain {
 public:
  Chain(std::string name, int scale, int pad_px) {
    network_.name = std::move(name);
    network_.scale = scale;
    network_.pad_px = pad_px;
    network_.layers.push_back(Input());
  }

  Chain& Add(Layer layer) {
    const int previous = static_cast<int>(network_.layers.size()) - 1;
    if (layer.inputs.empty()) layer.inputs = {previous};
    layer.in_channels = network_.layers[layer.inputs[0]].out_channels;
    layer.name = absl::StrCat(network_.layers.size());
    network_.layers.push_back(std::move(layer));
    return *this;
  }
  Chain& Conv(int channels, int padding_px, bool activation = true) {
    Layer layer = RandomConv(channels_, channels, padding_px);
    if (!activation) {
      layer.activation = Activation::kNone;
      layer.slope.clear();
    }
    channels_ = channels;
    return Add(std::move(layer));
  }
  Network Take() { return std::move(network_); }

 private:
  Network network_;
  int channels_ = 3;
};

Layer Resize(Op op, int channels, int factor) {
  Layer layer;
  layer.op = op;
  layer.factor = factor;
  layer.out_channels = channels;
  return layer;
}

Network Vgg7() {
  Chain chain("random vgg_7", 2, 4);
  chain.Add(Resize(Op::kResizeNearest, 3, 2));
  for (const int channels : {32, 32, 64, 64, 128, 128}) chain.Conv(channels, 0);
  chain.Conv(3, 0, false);
  Layer crop;
  crop.op = Op::kCrop;
  crop.crop_px = 1;
  crop.out_channels = 3;
  return chain.Add(std::move(crop)).Take();
}

Network Upconv7() {
  Chain chain("random upconv_7", 2, 7);
  for (const int channels : {16, 32, 64, 128, 128, 256}) chain.Conv(channels, 0);
  Layer up;
  up.op = Op::kConvTranspose;
  up.kernel_px = 4;
  up.stride_px = 2;
  up.padding_px = 3;
  up.in_channels = 256;
  up.out_channels = 3;
  FillWeights(up);
  return chain.Add(std::move(up)).Take();
}

// Convolutions of one width around a pixel shuffle; `skip` adds the enlarged input.
Network PixelShuffleNetwork(std::string name, int width, int layers, int scale, bool skip) {
  Chain chain(std::move(name), scale, 0);
  for (int i = 0; i <= layers; ++i) chain.Conv(width, 1);
  chain.Conv(3 * scale * scale, 1, false);
  chain.Add(Resize(Op::kPixelShuffle, 3, scale));
  if (skip) {
    Layer enlarged = Resize(Op::kResizeNearest, 3, scale);
    enlarged.inputs = {0};
    chain.Add(std::move(enlarged));
    Layer sum;
    sum.op = Op::kAdd;
    sum.out_channels = 3;
    sum.inputs = {layers + 3, layers + 4};
    chain.Add(std::move(sum));
  }
  return chain.Take();
}

absl::StatusOr<Network> RandomNetwork(const std::string& shape) {
  if (shape == "vgg_7") return Vgg7();
  if (shape == "upconv_7") return Upconv7();
  if (shape == "cunet") return RandomCunet();
  if (shape == "srvgg") return PixelShuffleNetwork("random SRVGG 16x64", 64, 16, 2, true);
  if (shape == "srvgg_x4") return PixelShuffleNetwork("random SRVGG 16x64 x4", 64, 16, 4, true);
  if (shape == "rrdb") return RandomRrdb(23);
  if (shape == "small") return PixelShuffleNetwork("random small 6x32", 32, 6, 2, false);
  if (shape == "medium") return PixelShuffleNetwork("random medium 6x48", 48, 6, 2, false);
  return absl::InvalidArgumentError(
      absl::StrCat("no random network '", shape,
                   "', there are: vgg_7, upconv_7, cunet, srvgg, srvgg_x4, rrdb, small, medium"));
}

}  // namespace

Layer RandomConv(int in_channels, int out_channels, int padding_px, int kernel_px) {
  Layer layer;
  layer.op = Op::kConv;
  layer.kernel_px = kernel_px;
  layer.padding_px = padding_px;
  layer.in_channels = in_channels;
  layer.out_channels = out_channels;
  layer.activation = Activation::kLeakyRelu;
  layer.slope = {0.1f};
  FillWeights(layer);
  return layer;
}

absl::StatusOr<Network> LoadBenchNetwork(const std::string& model,
                                         std::span<const std::filesystem::path> folders) {
  if (model.starts_with(kRandomPrefix)) {
    return RandomNetwork(model.substr(sizeof(kRandomPrefix) - 1));
  }
  if (folders.empty() || std::filesystem::is_regular_file(model)) return LoadNetworkFile(model);
  ASSIGN_OR_RETURN(const ModelRepository models,
                   ModelRepository::Open({folders.begin(), folders.end()}));
  ASSIGN_OR_RETURN(const ModelCard* card, models.Find(model));
  const ModelVariant* variant = card->Find(2, kNoDenoise);
  return LoadNetwork(*card, variant != nullptr ? *variant : card->variants.front());
}

}  // namespace upscaled::bench
