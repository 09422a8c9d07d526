// Builds a network from ncnn's layers: the origin of each blob (ncnn_builder.cc) and the meaning of
// each layer type (ncnn_layers.cc, ncnn_shapes.cc, ncnn_arithmetic.cc).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/fractional_resize.h"
#include "engine/model/ncnn_param.h"
#include "engine/model/ncnn_weights.h"
#include "engine/model/network.h"

namespace upscaled {

// Turns ncnn's layers into ours, one by one, in the file's order, the order of execution.
class NcnnBuilder {
 public:
  explicit NcnnBuilder(std::string_view bin) : weights_(bin) {}

  // UNIMPLEMENTED or INVALID_ARGUMENT, without the layer's name.
  absl::Status Add(NcnnLayer& layer);
  // The validated network; INVALID_ARGUMENT when blobs or weights are left over.
  absl::StatusOr<Network> Finish();

 private:
  // A blob is read once; Split makes copies of it, and these are shared.
  struct Blob {
    int layer;
    bool shared;
  };
  struct Type {
    const char* name;
    size_t inputs;  // 0: any number
    absl::Status (NcnnBuilder::*add)(NcnnLayer& source);
  };
  static std::span<const Type> Types();

  absl::Status AddInput(NcnnLayer& source);
  absl::Status AddConvolution(NcnnLayer& source) { return AddConv(source, Op::kConv); }
  absl::Status AddGroupedConvolution(NcnnLayer& source) {
    return AddConv(source, Op::kGroupedConv);
  }
  absl::Status AddDeconvolution(NcnnLayer& source) { return AddConv(source, Op::kConvTranspose); }
  absl::Status AddConv(NcnnLayer& source, Op op);
  absl::Status AddInnerProduct(NcnnLayer& source);
  absl::Status AddRelu(NcnnLayer& source);
  absl::Status AddPRelu(NcnnLayer& source);
  absl::Status AddCurve(NcnnLayer& source);
  absl::Status AddClip(NcnnLayer& source);
  absl::Status AddPixelShuffle(NcnnLayer& source);
  absl::Status AddInterp(NcnnLayer& source);
  absl::Status AddFractionalResize(NcnnLayer& source, Interpolation interpolation, float factor);
  absl::Status AddSplit(NcnnLayer& source);
  absl::Status AddConcat(NcnnLayer& source);
  absl::Status AddBinaryOp(NcnnLayer& source);
  absl::Status AddEltwise(NcnnLayer& source);
  absl::Status AddScale(NcnnLayer& source);
  absl::Status AddCrop(NcnnLayer& source);
  absl::Status AddPadding(NcnnLayer& source);
  absl::Status AddPooling(NcnnLayer& source);
  absl::Status AddReshape(NcnnLayer& source);
  absl::Status AddScalarOp(NcnnLayer& source, int type);

  // A layer with `inputs_` and, unless changed, as many channels as the first has.
  Layer NewLayer(const NcnnLayer& source, Op op) const;
  absl::Status Append(const NcnnLayer& source, Layer layer);
  // Into the layer of `inputs_[0]` if no other layer sees its plain result, otherwise as a layer of
  // its own.
  absl::Status AppendActivation(const NcnnLayer& source, const Layer& activation);
  absl::Status AppendAffine(const NcnnLayer& source, Layer affine);
  absl::Status AppendAffine(NcnnLayer& source, float factor, float offset);
  // The inputs, each times its factor.
  absl::Status AppendSum(NcnnLayer& source, const std::vector<float>& factors);
  // A layer without a blob for its result; its index.
  absl::StatusOr<int> AppendUnnamed(const NcnnLayer& source, Layer layer);
  // Names the current input as the output: for layers without an effect.
  absl::Status PassThrough(const NcnnLayer& source);
  absl::Status AppendWithWeights(NcnnLayer& source, Layer layer, int bias_param, int count_param,
                                 int kernel_area);
  absl::Status SetOutput(const std::string& name, Blob blob);

  NcnnWeights weights_;
  Network network_;
  std::map<std::string, Blob> blobs_;  // made and not read yet
  std::vector<Blob> inputs_;           // the inputs of the layer that is being added
};

}  // namespace upscaled
