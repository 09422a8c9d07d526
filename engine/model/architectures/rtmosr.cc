#include "engine/model/architectures/rtmosr.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/gated.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/architectures/trained_conv.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr int kHalving = 2;       // of a block's planes
constexpr int kShiftPx = 5;       // the largest of a block's depthwise kernels
constexpr int64_t kMaxInner = 4;  // times the results of a convolution: channels that it has inside
constexpr float kRmsFloor = 1e-12f;
constexpr char kEnd[] = "to_img.0";

std::string RtBlock(int index) { return absl::StrCat("body.", index, "."); }

// The image's pixels along a side of the network's pixel.
absl::StatusOr<int> SeenBlock(const TensorFile& file) {
  const TensorInfo* first = file.Find("to_feat.1.conv2.weight");
  return first == nullptr || first->shape.size() != 4 ? 1 : ScaleOfShuffle(first->shape[1]);
}

// Adds factor * conv's weights and bias.
void AddWeighed(const Layer& conv, float factor, Layer& sum) {
  for (size_t i = 0; i < sum.weights.size(); ++i) sum.weights[i] += factor * conv.weights[i];
  for (size_t i = 0; i < sum.bias.size(); ++i) sum.bias[i] += factor * conv.bias[i];
}

// NAME.k1 (3x3) of NAME.k0 (1x1), around which the edge is NAME.b0, as if the image was padded with
// zeros before it. `like`: a convolution of the same channels.
Layer ReadPair(NetworkBuilder& builder, const std::string& name, const Layer& like) {
  Layer conv{.name = name};
  const int64_t inner = builder.Shape(name + ".k0", 4)[0];
  if (!builder.ok()) return conv;
  const auto out = static_cast<int64_t>(like.bias.size());
  const int64_t in = static_cast<int64_t>(like.weights.size()) / (kTaps * out);
  if (inner < 1 || inner > kMaxInner * out) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        Quote(name), " has ", inner, " channels inside, must be 1..", kMaxInner * out)));
    return conv;
  }
  const std::vector<float> first = builder.Read(name + ".k0", {inner, in, 1, 1}),
                           first_bias = builder.Read(name + ".b0", {inner}),
                           second = builder.Read(name + ".k1", {out, inner, 3, 3}),
                           second_bias = builder.Read(name + ".b1", {out});
  if (!builder.ok()) return conv;
  for (int64_t o = 0; o < out; ++o) {
    std::vector<double> row(in * kTaps);
    double bias = second_bias[o];
    AddInnerConv(&second[o * inner * kTaps], first, first_bias, row, bias);
    conv.weights.insert(conv.weights.end(), row.begin(), row.end());
    conv.bias.push_back(static_cast<float>(bias));
  }
  return conv;
}

// Three convolutions, each with a factor, and added: of a pair, of one, of four. They are one.
// Leaves NAME.conv_3x3_rep aside; training made it of them at some time.
int AddRepConv(NetworkBuilder& builder, int input, const std::string& name) {
  builder.Ignore(name + ".conv_3x3_rep.");
  Layer sum = ReadTrainedConv(builder, name + ".conv3");
  const std::vector<float> factors = builder.Read(name + ".alpha", {3});
  if (!builder.ok()) return input;
  const auto out = static_cast<int64_t>(sum.bias.size());
  const int64_t in = static_cast<int64_t>(sum.weights.size()) / (kTaps * out);
  const Layer pair = ReadPair(builder, name + ".conv1", sum);
  const Layer plain{.weights = builder.Read(name + ".conv2.weight", {out, in, 3, 3}),
                    .bias = builder.Read(name + ".conv2.bias", {out})};
  if (!builder.ok()) return input;
  for (float& weight : sum.weights) weight *= factors[2];
  for (float& bias : sum.bias) bias *= factors[2];
  AddWeighed(pair, factors[0], sum);
  AddWeighed(plain, factors[1], sum);
  sum.name = name;
  return builder.Conv(input, std::move(sum));
}

// Depthwise kernels of 1, 3 and 5 pixels and the value itself, each with a factor for each channel,
// are one kernel of 5. NAME.conv5x5_reparam, made of them at some time, is left aside.
int AddShifts(NetworkBuilder& builder, int input, const std::string& name) {
  if (!builder.ok()) return input;
  builder.Ignore(name + ".conv5x5_reparam.");
  const int channels = builder.Channels(input);
  Layer conv{.name = name, .kernel_px = kShiftPx, .groups = channels, .padding_px = kShiftPx / 2};
  conv.weights.assign(size_t{kShiftPx} * kShiftPx * channels, 0.0f);
  conv.bias.assign(channels, 0.0f);
  const auto factors = [&](int number) {
    return builder.Read(absl::StrCat(name, ".alpha", number), {1, channels, 1, 1});
  };
  const std::vector<float> own = factors(1);
  if (!builder.ok()) return input;
  for (int c = 0; c < channels; ++c) {
    conv.weights[(size_t{1} * c * kShiftPx + kShiftPx / 2) * kShiftPx + kShiftPx / 2] += own[c];
  }
  for (int side = 1; side <= kShiftPx; side += 2) {
    const std::string part = absl::StrCat(name, ".conv", side, "x", side);
    const std::vector<float> factor = factors(2 + side / 2),
                             weights = builder.Read(part + ".weight", {channels, 1, side, side}),
                             bias = builder.Read(part + ".bias", {channels});
    if (!builder.ok()) return input;
    const int first = (kShiftPx - side) / 2;
    for (int c = 0; c < channels; ++c) {
      conv.bias[c] += factor[c] * bias[c];
      for (int i = 0; i < side * side; ++i) {
        const int y = first + i / side, x = first + i % side;
        conv.weights[(size_t{1} * c * kShiftPx + y) * kShiftPx + x] +=
            factor[c] * weights[size_t{1} * c * side * side + i];
      }
    }
  }
  return builder.GroupedConv(input, std::move(conv));
}

// A factor for each channel, of the means over the image: the second curve is (v + 3) / 6 within
// 0..1.
int AddChannelFactors(NetworkBuilder& builder, int x, const std::string& name) {
  int factors = builder.GlobalAveragePool(x);
  factors = builder.FullyConnected(factors, name + ".0", Activation::kRelu);
  factors = builder.FullyConnected(factors, name + ".2", Activation::kNone);
  factors = builder.Affine(factors, {1.0f / 6}, {0.5f});
  return builder.Mul(x, builder.Activate(factors, Activation::kClip));
}

int AddMixer(NetworkBuilder& builder, int input, const std::string& name) {
  const int maxima =
      AddRepConv(builder, builder.MaxPool(input, kHalving, kHalving), name + "0.poll.1");
  int x = builder.Add(builder.PixelUnshuffle(input, kHalving), maxima);
  x = AddShifts(builder, x, name + "1");
  if (builder.file().Has(name + "2.squeezing.0.weight")) {
    x = AddChannelFactors(builder, x, name + "2.squeezing");
  }
  return builder.PixelShuffle(x, kHalving);
}

// fc1's channels: a gate, some unchanged ones, and as many mixed ones as the input has.
int AddRtBlock(NetworkBuilder& builder, int x, const std::string& block) {
  if (!builder.ok()) return x;
  const int channels = builder.Channels(x);
  Layer norm{.name = block + "norm", .centred = false, .epsilon = kRmsFloor};
  norm.weights = builder.Read(block + "norm.scale", {channels});
  norm.bias = builder.Read(block + "norm.offset", {channels});
  const int y = AddRepConv(builder, builder.PixelNorm(x, std::move(norm)), block + "fc1");
  if (!builder.ok()) return x;
  if (!CheckGate(builder, y, channels, block + "fc1")) return x;
  int z = AddGate(builder, y, channels,
                  [&](int mixed) { return AddMixer(builder, mixed, block + "conv."); });
  z = builder.file().Has(block + "fc2.alpha") ? AddRepConv(builder, z, block + "fc2")
                                              : builder.Conv(z, block + "fc2", {});
  return builder.Add(builder.Activate(z, Activation::kMish), x);
}

}  // namespace

bool RecogniseRtMosr(const TensorFile& file) {
  return file.Has(RtBlock(0) + "fc1.alpha") && file.Has(RtBlock(0) + "conv.0.poll.1.alpha") &&
         file.Has(absl::StrCat(kEnd, ".alpha"));
}

absl::StatusOr<int> RtMosrScale(const TensorFile& file) {
  const absl::StatusOr<int> seen = SeenBlock(file);
  if (!seen.ok()) return seen.status();
  const TensorInfo* end = file.Find(absl::StrCat(kEnd, ".conv2.weight"));
  const absl::StatusOr<int> factor =
      ScaleOfShuffle(end == nullptr || end->shape.empty() ? 0 : end->shape[0]);
  if (!factor.ok() || *factor % *seen == 0) return factor.ok() ? *factor / *seen : factor;
  return absl::InvalidArgumentError(absl::StrCat("enlarges blocks of ", *seen, "x", *seen,
                                                 " pixels by ", *factor, ", which is no multiple"));
}

void BuildRtMosr(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = RtMosrScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const int seen = *SeenBlock(file);
  const int image = builder.Pad(builder.Input(), 0, PadMode::kReflect, kHalving * seen);
  int x = AddRepConv(builder, builder.PixelUnshuffle(image, seen),
                     file.Has("to_feat.1.alpha") ? "to_feat.1" : "to_feat");
  for (int i = 0; builder.ok() && file.Has(RtBlock(i) + "norm.scale"); ++i) {
    x = AddRtBlock(builder, x, RtBlock(i));
  }
  x = builder.PixelShuffle(AddRepConv(builder, x, kEnd), *scale * seen);
  builder.Add(x, builder.Nearest(image, *scale));
}

}  // namespace upscaled
