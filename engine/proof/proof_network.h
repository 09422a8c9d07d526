// The networks of proofs.
#pragma once

#include <random>
#include <vector>

#include "engine/graph/pooling.h"
#include "engine/model/network.h"
#include "engine/proof/kernel_proof.h"

namespace upscaled {

// Convolutions with random weights, of values about 1. No other layer is one that the kernel takes.
class ProofNetwork {
 public:
  explicit ProofNetwork(const ProofCase& proof);

  const Network& network() const { return network_; }
  // The index of the convolution that is proven; -1: all layers are.
  int proven() const { return proven_; }
  // Any means of the pooled layers.
  const std::vector<ChannelMeans>& means() const { return means_; }

 private:
  void AddBetween(const ProofCase& proof);
  void AddPooled(const ProofCase& proof);
  void AddLast(const ProofCase& proof);
  void AddEnlarging(const ProofCase& proof);
  // Gates of the input of every kind of convolution, and of residuals.
  void AddGated(const ProofCase& proof);

  // These return their last layer.
  int AddProven(const ProofCase& proof);  // a 3x3 convolution between others
  int AddGate(int input);                 // a squeeze-excite of the layer
  int AddSum(int first, int second);
  int AddPlain(Op op, const char* name, int input, int out, int factor);
  int AddConv(const char* name, int input, int out, int kernel, Activation activation,
              int stride = 1, Op op = Op::kConv);

  // The last layer, 1x1.
  void AddEnd(int input);

  std::mt19937 random_{1};
  Network network_;
  std::vector<ChannelMeans> means_;
  int proven_ = -1;
};

}  // namespace upscaled
