#include "tests/engine/backends/random_network.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "engine/base/check.h"
#include "engine/graph/pooling.h"
#include "engine/model/border.h"
#include "engine/model/op.h"
#include "engine/model/shapes.h"
#include "engine/model/without_weights.h"
#include "tests/support/test_image.h"

namespace upscaled::test {
namespace {

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[RandomInt(random, 0, static_cast<int>(values.size()) - 1)];
}

bool Chance(std::mt19937& random, int percent) { return RandomInt(random, 1, 100) <= percent; }

class Builder {
 public:
  explicit Builder(std::mt19937& random) : random_(random) {
    network_.name = "random";
    network_.layers.push_back({.op = Op::kInput, .name = "input", .out_channels = 3});
  }

  Network& network() { return network_; }
  int last() const { return static_cast<int>(network_.layers.size()) - 1; }
  int RandomWidth() { return Pick(random_, {1, 3, 12, 16, 31, 32, 48, 64}); }

  void Conv(int out, int kernel_px, int stride_px, int padding_px, bool activate) {
    Layer layer{.op = Op::kConv,
                .out_channels = out,
                .kernel_px = kernel_px,
                .stride_px = stride_px,
                .padding_px = padding_px};
    AppendWithWeights(std::move(layer), activate);
  }
  // As many channels as the last layer has.
  void GroupedConv(int groups, int kernel_px, int padding_px) {
    Layer layer{.op = Op::kGroupedConv,
                .out_channels = network_.layers.back().out_channels,
                .kernel_px = kernel_px,
                .groups = groups,
                .padding_px = padding_px};
    AppendWithWeights(std::move(layer), true);
  }
  void RandomConv(int out, bool activate = true) {
    const int kernel_px = Pick(random_, {1, 3, 3, 3, 5});
    Conv(out, kernel_px, 1, Chance(random_, 40) ? kernel_px / 2 : 0, activate);
  }
  void ConvTranspose(int out, int kernel_px, int stride_px, int padding_px, bool activate) {
    Layer layer{.op = Op::kConvTranspose,
                .out_channels = out,
                .kernel_px = kernel_px,
                .stride_px = stride_px,
                .padding_px = padding_px};
    AppendWithWeights(std::move(layer), activate);
  }
  void Resize(Op op, int factor) { Append({.op = op, .factor = factor}); }
  void PixelShuffle(int factor) {
    const int out = network_.layers.back().out_channels / (factor * factor);
    Append({.op = Op::kPixelShuffle, .out_channels = out, .factor = factor});
  }
  void Crop(int of, int crop_px) { Append({.op = Op::kCrop, .inputs = {of}, .crop_px = crop_px}); }
  // And, at the right and the bottom, to a multiple of `align_px`.
  void Pad(int padding_px, int align_px = 1) {
    Append({.op = Op::kPad,
            .padding_px = padding_px,
            .factor = align_px,
            .pad_mode = Pick(random_, {PadMode::kConstant, PadMode::kReplicate, PadMode::kReflect}),
            .pad_value = 0.25f});
  }
  void Affine() {
    Layer layer{.op = Op::kAffine, .out_channels = network_.layers.back().out_channels};
    Fill(layer.weights, layer.out_channels, 1.0f);
    Fill(layer.bias, layer.out_channels, 0.1f);
    Append(std::move(layer));
  }
  // Strong, so it does not magnify the backends' rounding differences.
  void PixelNorm() {
    Layer layer{.op = Op::kPixelNorm,
                .out_channels = network_.layers.back().out_channels,
                .centred = Chance(random_, 50),
                .epsilon = 0.5f};
    Fill(layer.weights, layer.out_channels, 1.0f);
    Fill(layer.bias, layer.out_channels, 0.1f);
    Append(std::move(layer));
  }
  // Queries, keys and values of the last layer, and their attention.
  void WindowAttention(int heads, WindowAxis x, WindowAxis y) {
    const int channels = network_.layers.back().out_channels;
    Conv(3 * channels, 1, 1, 0, false);
    Layer layer{.op = Op::kWindowAttention,
                .out_channels = channels,
                .groups = heads,
                .window_x = x,
                .window_y = y,
                .overlap_px = Chance(random_, 30) ? RandomInt(random_, 1, 3) : 0,
                .factor = Chance(random_, 30) ? RandomInt(random_, 2, 8) : 1};
    Fill(layer.weights, OperationOf(layer.op).weights(layer), 1.0f);
    Append(std::move(layer));
  }
  // As WindowAttention, among the channels of each head.
  void ChannelAttention(int heads) {
    const int channels = network_.layers.back().out_channels;
    Conv(3 * channels, 1, 1, 0, false);
    const int qkv = last();
    Layer products{.op = Op::kChannelProducts, .groups = heads};
    products.in_channels = 3 * channels;
    products.out_channels = OperationOf(products.op).channels(products, 3 * channels);
    Append(std::move(products));
    Append({.op = Op::kGlobalAveragePool});
    Layer layer{.op = Op::kChannelAttention,
                .inputs = {qkv, last()},
                .out_channels = channels,
                .groups = heads};
    Fill(layer.weights, heads, 1.0f);
    Append(std::move(layer));
  }
  // The last layer normalised over the image.
  void GroupNorm() {
    const int x = last(), channels = ChannelsOf(x);
    Join(Op::kMul, x, x);
    Concat({x, last()});
    Append({.op = Op::kGlobalAveragePool});
    Layer layer{.op = Op::kGroupNorm,
                .inputs = {x, last()},
                .groups = channels % 4 == 0 ? Pick(random_, {1, 2, 4}) : 1,
                .epsilon = 0.5f};
    Fill(layer.weights, channels, 1.0f);
    Fill(layer.bias, channels, 0.1f);
    Append(std::move(layer));
  }
  // A convolution of some of the channels, the others behind it.
  void PartialConv(int kernel_px) {
    const int of = last(), channels = network_.layers[of].out_channels;
    const int first = RandomInt(random_, 1, channels - 1);
    Append({.op = Op::kSlice, .out_channels = first});
    Conv(first, kernel_px, 1, kernel_px / 2, true);
    const int convolved = last();
    Append({.op = Op::kSlice,
            .inputs = {of},
            .out_channels = channels - first,
            .first_channel = first});
    Append({.op = Op::kConcat, .inputs = {convolved, last()}, .out_channels = channels});
  }
  void Join(Op op, int first, int second) {
    if (op == Op::kConcat) return Concat({first, second});
    Append({.op = op, .inputs = {first, second}, .out_channels = ChannelsOf(first)});
  }
  void Concat(std::vector<int> parts) {
    int channels = 0;
    for (const int part : parts) channels += ChannelsOf(part);
    Append({.op = Op::kConcat, .inputs = std::move(parts), .out_channels = channels});
  }
  // Scales the last layer by factors made of the means of layer `of`, and maybe of its own.
  void SqueezeExcite(int of) {
    const int scaled = last();
    const int channels = network_.layers[scaled].out_channels;
    Append({.op = Op::kGlobalAveragePool, .inputs = {of}});
    if (Chance(random_, 20)) Append({.op = Op::kGlobalAveragePool});
    if (Chance(random_, 20)) {
      const int means = last();
      Append({.op = Op::kGlobalAveragePool, .inputs = {scaled}});
      Concat({means, last()});
    }
    FullyConnected(Pick(random_, {1, 4, 17, 32}), true);
    if (Chance(random_, 30)) SiluOfTwo();
    if (Chance(random_, 20)) ChangeValues();
    Factors(channels);
    Join(Op::kMul, scaled, last());
    if (!Chance(random_, 20)) return;
    const int product = last();
    Conv(channels, 1, 1, 0, false);
    SqueezeExcite(product);
  }
  void SqueezeExcite() { SqueezeExcite(last()); }
  // One value per channel for the whole image of the last layer's, as every operation may leave
  // them.
  void Factors(int channels) {
    const int of = last(), half = channels / 2;
    const auto connect = [&](int out) {
      FullyConnected(out, false, of);
      Sigmoid();
      return last();
    };
    switch (RandomInt(random_, 0, 4)) {
      case 0:
        FullyConnected(channels, false);
        return SiluOfTwo();
      case 1:
        if (half == 0) break;
        return Join(Op::kConcat, connect(half), connect(channels - half));
      case 2:
        return Join(Op::kAdd, connect(channels), connect(channels));
      default:
        break;
    }
    connect(channels);
  }
  // SiLU as ONNX spells it: a sigmoid, and a product with it.
  void SiluOfTwo() {
    const int of = last();
    Sigmoid();
    const bool swapped = Chance(random_, 50);
    Join(Op::kMul, swapped ? last() : of, swapped ? of : last());
  }
  // An operation on the last layer, of the same size.
  void ChangeValues() {
    const int channels = network_.layers.back().out_channels;
    switch (RandomInt(random_, 0, 5)) {
      case 0:
        return Affine();
      case 1:
        return PixelNorm();
      case 2:
        return GroupedConv(channels, 1, 0);
      case 3:
        return Conv(8, 3, 1, 1, true);
      case 4:
        if (channels > 1) return PartialConv(1);
        break;
      default:
        break;
    }
    ActivationAlone();
  }
  void Sigmoid() { Append({.op = Op::kActivation, .activation = Activation::kSigmoid}); }
  void ActivationAlone() {
    Layer layer{.op = Op::kActivation, .out_channels = network_.layers.back().out_channels};
    Activate(layer);
    Append(std::move(layer));
  }

 private:
  int ChannelsOf(int layer) const { return network_.layers[layer].out_channels; }

  // As formats spell it: one or the other.
  void FullyConnected(int out, bool activate) { FullyConnected(out, activate, last()); }
  void FullyConnected(int out, bool activate, int of) {
    Layer layer{
        .op = Pick(random_, {Op::kFullyConnected, Op::kConv}), .inputs = {of}, .out_channels = out};
    AppendWithWeights(std::move(layer), activate);
  }

  void Append(Layer layer) {
    if (layer.inputs.empty()) layer.inputs = {last()};
    layer.in_channels = network_.layers[layer.inputs[0]].out_channels;
    if (layer.out_channels == 0) layer.out_channels = layer.in_channels;
    layer.name = absl::StrFormat("layer%d", last() + 1);
    network_.layers.push_back(std::move(layer));
  }

  void AppendWithWeights(Layer layer, bool activate) {
    const int of = layer.inputs.empty() ? last() : layer.inputs[0];
    const int in = ChannelsOf(of) / layer.groups;
    const int taps = layer.kernel_px * layer.kernel_px;
    const float spread = std::sqrt(2.0f / static_cast<float>(in * taps)) *
                         (layer.op == Op::kConvTranspose ? static_cast<float>(layer.stride_px) : 1);
    Fill(layer.weights, size_t{1} * in * layer.out_channels * taps, spread);
    Fill(layer.bias, layer.out_channels, 0.1f);
    if (activate) Activate(layer);
    Append(std::move(layer));
  }

  void Activate(Layer& layer) {
    layer.activation = Pick(
        random_, {Activation::kNone, Activation::kRelu, Activation::kLeakyRelu, Activation::kPRelu,
                  Activation::kSigmoid, Activation::kClip, Activation::kSilu, Activation::kMish,
                  Activation::kGelu, Activation::kGeluTanh, Activation::kSoftplus});
    if (layer.activation == Activation::kLeakyRelu) layer.slope = {0.1f};
    if (layer.activation == Activation::kPRelu) Fill(layer.slope, layer.out_channels, 0.3f);
    if (layer.activation == Activation::kClip) {
      layer.clip_min = -0.5f;
      layer.clip_max = 0.75f;
    }
  }

  void Fill(std::vector<float>& values, size_t count, float spread) {
    std::normal_distribution<float> normal(0, spread);
    values.resize(count);
    for (float& v : values) v = normal(random_);
  }

  std::mt19937& random_;
  Network network_;
};

// conv, then a branch at half the size, joined with the cropped skip.
void AppendUnet(Builder& b, std::mt19937& random) {
  const int width = Pick(random, {3, 16, 32});
  b.RandomConv(width);
  const int skip = b.last();
  b.Conv(width, 2, 2, 0, true);
  int crop_px = 0;
  for (int i = RandomInt(random, 0, 2); i > 0; --i) {
    const bool same = Chance(random, 50);
    b.Conv(width, 3, 1, same ? 1 : 0, true);
    if (!same) crop_px += 2;
  }
  if (Chance(random, 40)) b.SqueezeExcite();
  b.ConvTranspose(width, 2, 2, 0, true);
  const int deep = b.last();
  b.Crop(skip, crop_px);
  b.Join(Pick(random, {Op::kAdd, Op::kMul, Op::kConcat}), b.last(), deep);
}

void AppendResidual(Builder& b, std::mt19937& random) {
  const int width = b.RandomWidth();
  b.RandomConv(width);
  const int skip = b.last();
  b.Conv(width, 3, 1, 1, true);
  if (Chance(random, 40)) b.SqueezeExcite(Chance(random, 70) ? b.last() : skip);
  b.Join(Pick(random, {Op::kAdd, Op::kMul, Op::kConcat}), skip, b.last());
  if (Chance(random, 20)) b.GroupNorm();
  if (Chance(random, 50)) b.ActivationAlone();
}

// A dense block: every layer reads the results of all before it.
void AppendDense(Builder& b, std::mt19937& random) {
  b.RandomConv(Pick(random, {8, 16, 32}));
  std::vector<int> parts = {b.last()};
  for (int i = RandomInt(random, 1, 3); i > 0; --i) {
    b.Conv(Pick(random, {16, 16, 32, 12}), 3, 1, 1, true);
    parts.push_back(b.last());
    if (Chance(random, 10)) parts.push_back(parts.front());
    b.Concat(parts);
  }
}

// A block of Swin, of LayerNorm or without: attention and two convolutions of 1x1, each with a
// skip.
void AppendAttention(Builder& b, std::mt19937& random) {
  const auto axis = [&random] {
    const int window_px = RandomInt(random, 1, 8);
    return WindowAxis{window_px, RandomInt(random, 0, window_px - 1)};
  };
  const int skip = b.last(), channels = b.network().layers.back().out_channels;
  if (Chance(random, 70)) b.PixelNorm();
  const int heads = channels % 6 == 0 ? Pick(random, {1, 2, 6}) : 1;
  if (Chance(random, 25)) {
    b.ChannelAttention(heads);
  } else {
    b.WindowAttention(heads, axis(), axis());
  }
  b.Conv(channels, 1, 1, 0, false);
  b.Join(Op::kAdd, b.last(), skip);
  const int attended = b.last();
  if (Chance(random, 70)) b.PixelNorm();
  b.Conv(2 * channels, 1, 1, 0, true);
  b.Conv(channels, 1, 1, 0, false);
  b.Join(Op::kAdd, b.last(), attended);
}

// A sum times a gate of one of its parts, either way around.
void AppendGate(Builder& b, std::mt19937& random) {
  b.RandomConv(b.RandomWidth());
  const int x = b.last();
  b.Conv(b.network().layers.back().out_channels, 3, 1, 1, Chance(random, 20));
  const int y = b.last();
  b.Sigmoid();
  b.Affine();
  const int gate = b.last();
  const bool swapped = Chance(random, 50);
  b.Join(Op::kAdd, swapped ? x : y, swapped ? y : x);
  b.Join(Op::kMul, swapped ? gate : b.last(), swapped ? b.last() : gate);
}

// Shuffled, maybe behind a transposed convolution, and added to the enlarged image. Fits where all
// before keep the scale.
void AppendAddedShuffle(Builder& b, std::mt19937& random) {
  const int before = Pick(random, {1, 1, 2}), factor = Pick(random, {2, 3, 4}) / before;
  if (before > 1) b.ConvTranspose(16, before, before, 0, true);
  b.Conv(3 * factor * factor, 3, 1, RandomInt(random, 0, 1), false);
  const std::vector<Size> sizes = LayerSizes(b.network(), {128, 128});
  const int cut_px = std::max(sizes.front().width - sizes.back().width / before, 0);
  b.PixelShuffle(factor);
  const int shuffled = b.last();
  b.Crop(0, cut_px / 2);
  b.Resize(Op::kResizeNearest, before * factor);
  b.Join(Op::kAdd, shuffled, b.last());
}

void AppendEnd(Builder& b, std::mt19937& random) {
  switch (RandomInt(random, 0, 6)) {
    case 0:
      b.RandomConv(3, false);
      break;
    case 1: {
      const int factor = Pick(random, {2, 3});
      b.Conv(3 * factor * factor, 3, 1, RandomInt(random, 0, 1), false);
      b.PixelShuffle(factor);
      break;
    }
    case 2:
      b.ConvTranspose(3, 4, 2, Pick(random, {1, 3}), false);
      break;
    case 3:
      b.ConvTranspose(3, 2, 2, 0, false);
      break;
    case 4:
      b.RandomConv(3, false);
      b.Resize(Pick(random, {Op::kResizeNearest, Op::kResizeBilinear}), 2);
      break;
    case 5: {  // down and up again
      const int stride_px = Pick(random, {2, 2, 3}), factor = 2 * stride_px;
      b.Conv(16, 3, stride_px, 1, true);
      b.Conv(3 * factor * factor, 3, 1, 1, false);
      b.PixelShuffle(factor);
      break;
    }
    case 6:
      AppendAddedShuffle(b, random);
      break;
  }
}

Network TryRandomAttentionNetwork(std::mt19937& random) {
  Builder b(random);
  b.RandomConv(Pick(random, {5, 12, 30, 48}), false);
  const bool down = Chance(random, 30);
  if (down) b.Conv(Pick(random, {6, 32}), 2, 2, 0, true);
  for (int blocks = RandomInt(random, 1, 2); blocks > 0; --blocks) AppendAttention(b, random);
  if (down) b.ConvTranspose(16, 2, 2, 0, true);
  AppendEnd(b, random);
  return std::move(b.network());
}

Network TryRandomAlignedNetwork(std::mt19937& random) {
  Builder b(random);
  const int window_px = Pick(random, {4, 6, 8});
  const bool down = Chance(random, 50), pads_features = Chance(random, 50);
  const auto pad = [&] { b.Pad(RandomInt(random, 0, 2), window_px * Pick(random, {3, 5, 6})); };
  if (!pads_features) pad();
  b.Conv(12, 3, 1, Pick(random, {0, 1}), true);
  if (down) b.Conv(12, 2, 2, 0, true);
  if (pads_features) pad();
  const WindowAxis axis{window_px, RandomInt(random, 0, window_px - 1)};
  b.WindowAttention(1, axis, axis);
  if (down) b.ConvTranspose(12, 2, 2, 0, true);
  AppendEnd(b, random);
  return std::move(b.network());
}

Network TryRandomNetwork(std::mt19937& random) {
  Builder b(random);
  if (Chance(random, 20)) b.Resize(Op::kResizeNearest, 2);
  for (int i = RandomInt(random, 0, 3); i > 0; --i) b.RandomConv(b.RandomWidth());
  if (Chance(random, 20)) b.Affine();
  if (Chance(random, 20)) {
    const int channels = b.network().layers.back().out_channels, kernel_px = Pick(random, {3, 7});
    const int groups = Chance(random, 30) && channels % 4 == 0 ? channels / 4 : channels;
    b.GroupedConv(groups, kernel_px, Chance(random, 50) ? kernel_px / 2 : 0);
  }
  if (Chance(random, 20)) b.PixelNorm();
  if (Chance(random, 10)) b.GroupNorm();
  if (Chance(random, 20) && b.network().layers.back().out_channels > 1) {
    b.PartialConv(Pick(random, {3, 9}));
  }
  if (Chance(random, 20)) {  // as much as a valid convolution of 5x5 takes, twice
    b.Pad(RandomInt(random, 1, 4));
    b.Conv(16, 5, 1, 0, true);
    b.Conv(16, 5, 1, 0, true);
  }
  for (int bodies = RandomInt(random, 0, 2); bodies > 0; --bodies) {
    const auto append = Pick(random, {&AppendUnet, &AppendResidual, &AppendDense, &AppendGate});
    append(b, random);
  }
  AppendEnd(b, random);
  if (Chance(random, 10)) b.SqueezeExcite(Chance(random, 50) ? b.last() : 0);
  return std::move(b.network());
}

}  // namespace

Network RandomNetwork(std::mt19937& random) {
  for (;;) {  // some cut off a border that cannot be split evenly
    Network network = TryRandomNetwork(random);
    if (InferBorder(network).ok() && network.MacsPerOutputPixel() < 200'000) return network;
  }
}

Network RandomAttentionNetwork(std::mt19937& random) {
  for (;;) {
    Network network = TryRandomAttentionNetwork(random);
    if (InferBorder(network).ok() && network.MacsPerOutputPixel() < 200'000) return network;
  }
}

Network RandomAlignedNetwork(std::mt19937& random) {
  for (;;) {
    Network network = TryRandomAlignedNetwork(random);
    if (InferBorder(network).ok() && network.MacsPerOutputPixel() < 200'000) return network;
  }
}

Network RandomFastNetwork(std::mt19937& random) {
  while (true) {
    Network network = RandomNetwork(random);
    const bool normalised = std::ranges::any_of(
        network.layers, [](const Layer& layer) { return layer.op == Op::kGroupNorm; });
    if (!normalised) return network;
  }
}

Network RandomPooledNetwork(std::mt19937& random, double max_macs_per_px) {
  for (;;) {
    Network network = RandomNetwork(random);
    const double macs = network.MacsPerOutputPixel() * network.scale * network.scale;
    if (!ListPoolings(network).empty() && macs < max_macs_per_px) return network;
  }
}

std::vector<Network> PooledLayerNetworks(std::mt19937& random) {
  // Each returns the layer to pool, and leaves the last one at the size of the image.
  using Append = int (*)(Builder&);
  constexpr Append kAppends[] = {
      [](Builder& b) {  // a product with factors of the image
        b.SqueezeExcite();
        return b.last();
      },
      [](Builder& b) {  // a concatenation of whole planes
        const int first = b.last();
        b.Conv(32, 3, 1, 1, true);
        b.Concat({first, b.last()});
        return b.last();
      },
      [](Builder& b) {  // a part of one
        const int first = b.last();
        b.Conv(32, 3, 1, 1, true);
        const int part = b.last();
        b.Concat({first, part});
        return part;
      },
      [](Builder& b) {  // a concatenation that a larger one begins with
        const int first = b.last();
        b.Conv(16, 3, 1, 1, true);
        const int second = b.last();
        b.Concat({first, second});
        const int joined = b.last();
        b.Conv(16, 3, 1, 1, true);
        b.Concat({first, second, b.last()});
        return joined;
      },
      [](Builder& b) {  // a convolution that is added to
        const int skip = b.last();
        b.Conv(32, 3, 1, 1, false);
        const int convolved = b.last();
        b.Join(Op::kAdd, skip, convolved);
        return convolved;
      },
      [](Builder& b) {  // the sum
        const int skip = b.last();
        b.Conv(32, 3, 1, 1, false);
        b.Join(Op::kAdd, skip, b.last());
        return b.last();
      },
      [](Builder& b) {  // pixels shuffled behind a convolution
        b.Conv(128, 3, 1, 1, false);
        b.PixelShuffle(2);
        const int shuffled = b.last();
        b.Conv(32, 2, 2, 0, true);
        return shuffled;
      },
      [](Builder& b) {  // padded
        b.Pad(1);
        const int padded = b.last();
        b.Conv(32, 3, 1, 0, true);
        return padded;
      },
      [](Builder& b) {  // cropped
        b.Crop(b.last(), 1);
        return b.last();
      },
      [](Builder& b) {  // sliced, convolved and joined
        b.PartialConv(3);
        return b.last();
      },
      [](Builder& b) {  // thin
        b.Conv(3, 3, 1, 1, true);
        return b.last();
      },
      [](Builder& b) {  // one value per channel
        const int skip = b.last();
        b.SqueezeExcite();
        const int factors = b.network().layers.back().inputs[1];
        b.Join(Op::kAdd, skip, b.last());
        return factors;
      },
  };
  std::vector<Network> networks;
  for (const Append append : kAppends) {
    Builder b(random);
    b.Conv(32, 3, 1, 1, true);
    const int pooled = append(b);
    b.Conv(32, 1, 1, 0, false);
    b.SqueezeExcite(pooled);
    b.Conv(3, 3, 1, 1, false);
    Network& network = networks.emplace_back(std::move(b.network()));
    UPSCALED_CHECK(InferBorder(network).ok());
  }
  return networks;
}

Network InputAlone() {
  Network network;
  network.layers = {{.op = Op::kInput, .name = "input", .out_channels = 3}};
  return network;
}

void AppendConv(Network& network, int out_channels, int kernel_px) {
  const size_t count = network.layers.size();
  Layer layer{.op = Op::kConv,
              .name = absl::StrFormat("conv%d", count),
              .inputs = {static_cast<int>(count) - 1},
              .out_channels = out_channels,
              .in_channels = network.layers.back().out_channels,
              .kernel_px = kernel_px,
              .padding_px = kernel_px / 2};
  layer.weights.assign(size_t{1} * out_channels * layer.in_channels * kernel_px * kernel_px, 0.0f);
  layer.bias.assign(out_channels, 0.0f);
  network.layers.push_back(std::move(layer));
}

void AppendTimesMean(Network& network, int factor) {
  const int last = static_cast<int>(network.layers.size()) - 1;
  const int channels = network.layers.back().out_channels;
  network.layers.push_back({.op = Op::kGlobalAveragePool,
                            .name = "pool",
                            .inputs = {last},
                            .out_channels = channels,
                            .in_channels = channels});
  network.layers.push_back({.op = Op::kMul,
                            .name = "mul",
                            .inputs = {factor, last + 1},
                            .out_channels = channels,
                            .in_channels = channels});
}

Network NormalisedNetwork(int blocks) {
  Network network = InputAlone();
  AppendConv(network, 16, 3);
  const auto append = [&](Layer layer) {
    layer.in_channels = network.layers[layer.inputs[0]].out_channels;
    if (layer.out_channels == 0) layer.out_channels = layer.in_channels;
    network.layers.push_back(std::move(layer));
    return static_cast<int>(network.layers.size()) - 1;
  };
  for (int i = 0; i < blocks; ++i) {
    const int skip = static_cast<int>(network.layers.size()) - 1;
    AppendConv(network, 16, 3);
    const int x = skip + 1;
    const int squares = append({.op = Op::kMul, .name = "squares", .inputs = {x, x}});
    const int both =
        append({.op = Op::kConcat, .name = "both", .inputs = {x, squares}, .out_channels = 32});
    const int moments = append({.op = Op::kGlobalAveragePool, .name = "pool", .inputs = {both}});
    Layer norm{.op = Op::kGroupNorm, .name = "norm", .inputs = {x, moments}, .groups = 4};
    norm.weights.assign(16, 1.0f);
    norm.bias.assign(16, 0.0f);
    append({.op = Op::kAdd, .name = "sum", .inputs = {append(std::move(norm)), skip}});
  }
  AppendConv(network, 3, 3);
  return network;
}

Network DeepNetwork(int blocks) {
  Network network = InputAlone();
  AppendConv(network, 64, 3);
  for (int i = 0; i < blocks; ++i) {
    const int skip = static_cast<int>(network.layers.size()) - 1;
    AppendConv(network, 64, 3);
    AppendConv(network, 64, 3);
    network.layers.push_back({.op = Op::kAdd,
                              .name = "sum",
                              .inputs = {skip + 2, skip},
                              .out_channels = 64,
                              .in_channels = 64});
  }
  AppendConv(network, 3, 3);
  return WithoutWeights(network);
}

std::string Describe(const Network& network) {
  std::string text = absl::StrFormat("scale %d pad %d align %d\n", network.scale, network.pad_px,
                                     network.align_px);
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& l = network.layers[i];
    absl::StrAppendFormat(&text, "%d: %s %d->%d k%d s%d p%d m%d f%d c%d %s, reads", i,
                          std::string(OpName(l.op)), l.in_channels, l.out_channels, l.kernel_px,
                          l.stride_px, l.padding_px, static_cast<int>(l.pad_mode), l.factor,
                          l.crop_px, std::string(ActivationName(l.activation)));
    for (const int input : l.inputs) absl::StrAppendFormat(&text, " %d", input);
    text += "\n";
  }
  return text;
}

}  // namespace upscaled::test
