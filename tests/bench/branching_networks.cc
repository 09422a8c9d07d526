#include "tests/bench/branching_networks.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/model/border.h"
#include "engine/model/fuse.h"
#include "tests/bench/networks.h"

namespace upscaled::bench {
namespace {

// Layers are given and returned as their indices.
class Builder {
 public:
  explicit Builder(std::string name) {
    network_.name = std::move(name);
    network_.layers.push_back({.op = Op::kInput, .name = "input", .out_channels = 3});
  }

  int Add(Layer layer, std::vector<int> inputs) {
    layer.inputs = std::move(inputs);
    layer.in_channels = network_.layers[layer.inputs[0]].out_channels;
    layer.name = absl::StrCat(network_.layers.size());
    network_.layers.push_back(std::move(layer));
    return static_cast<int>(network_.layers.size()) - 1;
  }
  int Channels(int of) const { return network_.layers[of].out_channels; }

  // Followed by a LeakyReLU of this slope; 1: by none.
  int Conv(int input, int channels, int padding_px, float slope, int kernel_px = 3,
           int stride = 1) {
    Layer layer = RandomConv(Channels(input), channels, padding_px, kernel_px);
    layer.stride_px = stride;
    SetSlope(layer, slope);
    return Add(std::move(layer), {input});
  }
  int Transposed(int input, int channels, int kernel_px, int padding_px, float slope) {
    Layer layer = RandomConv(Channels(input), channels, padding_px, kernel_px);
    layer.op = Op::kConvTranspose;
    layer.stride_px = 2;
    SetSlope(layer, slope);
    return Add(std::move(layer), {input});
  }
  int Plain(Op op, const std::vector<int>& inputs) {
    return Add({.op = op, .out_channels = Channels(inputs[0])}, inputs);
  }
  int Sum(int a, int b) { return Plain(Op::kAdd, {a, b}); }
  int Crop(int input, int crop_px) {
    return Add({.op = Op::kCrop, .out_channels = Channels(input), .crop_px = crop_px}, {input});
  }
  int Resize(int input) {
    return Add({.op = Op::kResizeNearest, .out_channels = Channels(input), .factor = 2}, {input});
  }
  int Concat(const std::vector<int>& inputs) {
    int channels = 0;
    for (const int input : inputs) channels += Channels(input);
    return Add({.op = Op::kConcat, .out_channels = channels}, inputs);
  }
  // Squeeze and excite.
  int Excite(int input) {
    int factors = Plain(Op::kGlobalAveragePool, {input});
    for (const auto& [channels, activation] : {std::pair{Channels(input) / 8, Activation::kRelu},
                                               {Channels(input), Activation::kSigmoid}}) {
      Layer layer = RandomConv(Channels(factors), channels, 0, 1);
      layer.op = Op::kFullyConnected;
      layer.activation = activation;
      layer.slope.clear();
      factors = Add(std::move(layer), {factors});
    }
    return Plain(Op::kMul, {input, factors});
  }
  // As loaders do, part of the convolution where it is one's result.
  int Scaled(int input, float factor) {
    Layer layer{.op = Op::kAffine, .out_channels = Channels(input)};
    layer.weights.assign(Channels(input), factor);
    layer.bias.assign(Channels(input), 0.0f);
    if (FuseAffine(layer, network_.layers[input])) return input;
    return Add(std::move(layer), {input});
  }

  // Scale and border follow from the layers.
  Network Take() {
    UPSCALED_CHECK(InferBorder(network_).ok());
    return std::move(network_);
  }

 private:
  static void SetSlope(Layer& layer, float slope) {
    layer.slope = {slope};
    if (slope != 1.0f) return;
    layer.activation = Activation::kNone;
    layer.slope.clear();
  }

  Network network_;
};

constexpr float kCunetSlope = 0.1f, kRrdbSlope = 0.2f, kNoActivation = 1.0f;

// Two valid convolutions.
int Pair(Builder& b, int input, int middle, int channels) {
  return b.Conv(b.Conv(input, middle, 0, kCunetSlope), channels, 0, kCunetSlope);
}

int Down(Builder& b, int input) { return b.Conv(input, b.Channels(input), 0, kCunetSlope, 2, 2); }
int Up(Builder& b, int input, int channels) {
  return b.Transposed(input, channels, 2, 0, kCunetSlope);
}

// Twice as large.
int FirstUnet(Builder& b, int input) {
  const int top = Pair(b, input, 32, 64);
  const int bottom = Up(b, b.Excite(Pair(b, Down(b, top), 128, 64)), 64);
  const int joined = b.Conv(b.Sum(b.Crop(top, 4), bottom), 64, 0, kCunetSlope);
  return b.Transposed(joined, 3, 4, 3, kNoActivation);
}

int SecondUnet(Builder& b, int input) {
  const int top = Pair(b, input, 32, 64);
  const int middle = b.Excite(Pair(b, Down(b, top), 64, 128));
  const int bottom = Up(b, b.Excite(Pair(b, Down(b, middle), 256, 128)), 128);
  const int rising = b.Excite(Pair(b, b.Sum(b.Crop(middle, 4), bottom), 64, 64));
  const int joined = b.Conv(b.Sum(b.Crop(top, 16), Up(b, rising, 64)), 64, 0, kCunetSlope);
  return b.Conv(joined, 3, 0, kNoActivation);
}

// Each convolution reads all results before it.
int DenseBlock(Builder& b, int input) {
  std::vector<int> parts = {input};
  for (int i = 0; i < 4; ++i) {
    const int all = i == 0 ? input : b.Concat(parts);
    parts.push_back(b.Conv(all, 32, 1, kRrdbSlope));
  }
  return b.Sum(b.Scaled(b.Conv(b.Concat(parts), 64, 1, kNoActivation), 0.2f), input);
}

}  // namespace

Network RandomCunet() {
  Builder b("random cunet");
  const int first = FirstUnet(b, 0);
  const int second = SecondUnet(b, first);
  b.Sum(b.Crop(first, 20), second);
  return b.Take();
}

Network RandomRrdb(int blocks) {
  Builder b(absl::StrCat("random RRDB ", blocks));
  const int first = b.Conv(0, 64, 1, kNoActivation);
  int body = first;
  for (int i = 0; i < blocks; ++i) {
    const int input = body;
    for (int j = 0; j < 3; ++j) body = DenseBlock(b, body);
    body = b.Sum(b.Scaled(body, 0.2f), input);
  }
  int up = b.Sum(b.Conv(body, 64, 1, kNoActivation), first);
  for (int i = 0; i < 2; ++i) up = b.Conv(b.Resize(up), 64, 1, kRrdbSlope);
  b.Conv(b.Conv(up, 64, 1, kRrdbSlope), 3, 1, kNoActivation);
  return b.Take();
}

}  // namespace upscaled::bench
