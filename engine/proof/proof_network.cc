#include "engine/proof/proof_network.h"

#include <cmath>
#include <utility>

#include "engine/image/image.h"

namespace upscaled {

ProofNetwork::ProofNetwork(const ProofCase& proof) {
  network_.name = "proof";
  network_.layers.push_back({.op = Op::kInput, .name = "input", .out_channels = kRgbChannels});
  switch (proof.layer) {
    case ProofLayer::kBetween:
      AddBetween(proof);
      break;
    case ProofLayer::kLast:
      AddLast(proof);
      break;
    case ProofLayer::kEnlarging:
      AddEnlarging(proof);
      break;
    case ProofLayer::kGated:
      AddGated(proof);
      break;
    case ProofLayer::kPooled:
      AddPooled(proof);
  }
}

void ProofNetwork::AddBetween(const ProofCase& proof) { AddEnd(AddProven(proof)); }

void ProofNetwork::AddPooled(const ProofCase& proof) { AddEnd(AddGate(AddProven(proof))); }

int ProofNetwork::AddProven(const ProofCase& proof) {
  const int skip = AddConv("skip", 0, proof.out_channels, 3, Activation::kPRelu);
  const int wide = AddConv("wide", skip, proof.in_channels, 1, Activation::kRelu);
  proven_ = AddConv("proven", wide, proof.out_channels, 3, Activation::kPRelu);
  return proof.adds ? AddSum(proven_, skip) : proven_;
}

void ProofNetwork::AddLast(const ProofCase& proof) {
  const int wide = AddConv("wide", 0, proof.in_channels, 3, Activation::kPRelu);
  const int factor = proof.factor;
  int last = proven_ =
      AddConv("proven", wide, proof.out_channels * factor * factor, 3, Activation::kNone);
  if (factor > 1) last = AddPlain(Op::kPixelShuffle, "shuffle", last, proof.out_channels, factor);
  if (proof.adds) {
    AddSum(last,
           factor > 1 ? AddPlain(Op::kResizeNearest, "enlarged", 0, kRgbChannels, factor) : 0);
  }
  network_.scale = factor;
}

void ProofNetwork::AddEnlarging(const ProofCase& proof) {
  const int skip = AddConv("skip", 0, proof.out_channels, 3, Activation::kPRelu);
  const int down = AddConv("down", skip, proof.in_channels, 2, Activation::kRelu, 2);
  proven_ =
      AddConv("proven", down, proof.out_channels, 2, Activation::kPRelu, 2, Op::kConvTranspose);
  AddEnd(proof.adds ? AddSum(proven_, skip) : proven_);
  network_.align_px = 2;
}

void ProofNetwork::AddGated(const ProofCase& proof) {
  const int in = proof.in_channels;
  const int gated = AddGate(AddConv("wide", 0, in, 3, Activation::kPRelu));
  const int mid = AddSum(AddConv("mid", gated, in, 3, Activation::kPRelu), gated);
  const int down = AddGate(AddConv("down", gated, proof.out_channels, 2, Activation::kPRelu, 2));
  const int up =
      AddSum(AddConv("up", down, in, 2, Activation::kPRelu, 2, Op::kConvTranspose), gated);
  AddConv("last", AddGate(AddSum(mid, up)), kRgbChannels, 3, Activation::kNone);
  network_.align_px = 2;
}

int ProofNetwork::AddGate(int input) {
  const int channels = network_.layers[input].out_channels;
  const int pool = AddPlain(Op::kGlobalAveragePool, "pool", input, channels, 1);
  const int factors =
      AddConv("factors", pool, channels, 1, Activation::kSigmoid, 1, Op::kFullyConnected);
  const int gated = AddPlain(Op::kMul, "gated", input, channels, 1);
  network_.layers[gated].inputs.push_back(factors);
  means_.emplace_back(channels, 0.25f);
  return gated;
}

void ProofNetwork::AddEnd(int input) { AddConv("last", input, kRgbChannels, 1, Activation::kNone); }

int ProofNetwork::AddSum(int first, int second) {
  const int sum = AddPlain(Op::kAdd, "sum", first, network_.layers[first].out_channels, 1);
  network_.layers[sum].inputs.push_back(second);
  return sum;
}

int ProofNetwork::AddPlain(Op op, const char* name, int input, int out, int factor) {
  network_.layers.push_back({.op = op,
                             .name = name,
                             .inputs = {input},
                             .out_channels = out,
                             .in_channels = network_.layers[input].out_channels,
                             .factor = factor});
  return static_cast<int>(network_.layers.size()) - 1;
}

int ProofNetwork::AddConv(const char* name, int input, int out, int kernel, Activation activation,
                          int stride, Op op) {
  const int in = network_.layers[input].out_channels;
  Layer layer{.op = op,
              .name = name,
              .inputs = {input},
              .out_channels = out,
              .in_channels = in,
              .kernel_px = kernel,
              .stride_px = stride,
              .padding_px = stride == 1 ? kernel / 2 : 0,
              .activation = activation};
  std::normal_distribution<float> weight(0, 1 / std::sqrt(1.0f * in * kernel * kernel));
  layer.weights.resize(size_t{1} * in * out * kernel * kernel);
  for (float& w : layer.weights) w = weight(random_);
  layer.bias.resize(out);
  for (float& b : layer.bias) b = weight(random_);
  if (activation == Activation::kPRelu) {
    std::uniform_real_distribution<float> slope(-0.5f, 1.5f);
    layer.slope.resize(out);
    for (float& s : layer.slope) s = slope(random_);
  }
  network_.layers.push_back(std::move(layer));
  return static_cast<int>(network_.layers.size()) - 1;
}

}  // namespace upscaled
