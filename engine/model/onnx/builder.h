// Builds a network from ONNX's nodes: which value comes from where (builder.cc) and what each
// operator means (convolutions.cc, arithmetic.cc, resizing.cc, rearranging.cc).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/network.h"
#include "engine/model/onnx/attributes.h"
#include "engine/model/onnx/schema.pb.h"

namespace upscaled::onnx {

// Turns ONNX's nodes into our layers, one by one, in the file's order, which is that of execution.
class Builder {
 public:
  // Borrows the graph.
  explicit Builder(const GraphProto& graph) : graph_(graph) {}

  // The graph's one input; first of all.
  absl::Status AddInput();
  // UNIMPLEMENTED or INVALID_ARGUMENT, without the node's name.
  absl::Status Add(const NodeProto& node);
  // The validated network.
  absl::StatusOr<Network> Finish();

 private:
  // Only kPlanes are a layer's result as it is; the other forms wait for the node that completes
  // what several of them spell.
  enum class Form : uint8_t {
    kConstant,
    kPlanes,        // [1, channels, height, width]
    kFlat,          // [1, channels], of one value per channel
    kChannelsLast,  // [1, height, width, channels]: only normalisations read it
    kHalfCropped,   // kPlanes cut along one axis alone, so far
    kBlocks,        // [1, a, b, c, height, width], see blocks
    kShuffled,      // blocks transposed to [1, channels, height, dy, width, dx]
  };
  struct Value {
    Form form = Form::kPlanes;
    const TensorProto* constant = nullptr;
    int layer = -1;
    bool shared = false;                 // read more than once, or the same as a value that is
    int crop_axis = 0, crop_px = 0;      // kHalfCropped
    std::array<int64_t, 3> blocks = {};  // kBlocks
    int factor = 0;                      // kShuffled
    bool depth_first = false;            // kShuffled: channels are [dy][dx][c], not [c][dy][dx]
  };
  // A node with what its inputs are; null for one that is left out.
  struct Node {
    explicit Node(const NodeProto& proto) : proto(proto), attributes(proto) {}
    const NodeProto& proto;
    Attributes attributes;
    std::vector<const Value*> inputs;
  };
  struct Operator {
    const char* name;
    size_t min_inputs, max_inputs;
    absl::Status (Builder::*add)(Node& node);
  };
  // How a convolution moves over its input.
  struct Window {
    int stride_px, padding_px;
  };
  static std::span<const Operator> Operators();

  // convolutions.cc
  absl::Status AddConv(Node& node);
  absl::Status AddConvTranspose(Node& node);
  absl::Status AddGemm(Node& node);
  absl::StatusOr<Window> ReadWindow(Node& node, int kernel_px);
  // Checks the shape [first, second, kernel, kernel] and reads the weights into `layer`.
  absl::Status ReadKernel(const Node& node, Layer& layer);
  absl::Status ReadBias(const Node& node, Layer& layer);

  // arithmetic.cc
  absl::Status AddRelu(Node& node);
  absl::Status AddLeakyRelu(Node& node);
  absl::Status AddPRelu(Node& node);
  absl::Status AddCurve(Node& node);
  absl::Status AddClip(Node& node);
  absl::Status AddAdd(Node& node);
  absl::Status AddSub(Node& node);
  absl::Status AddMul(Node& node);
  absl::Status AddGlobalAveragePool(Node& node);
  absl::Status AddReduceMean(Node& node);
  absl::Status AddPixelNorm(Node& node);
  // factor * value + offset, for each channel; both constants of a shape that means so.
  absl::Status AddAffine(const Node& node, const Value& value, const TensorProto* factor,
                         const TensorProto* offset);
  // Two planes that neither operand is a constant of.
  absl::Status AddJoin(const Node& node, Op op, const Value& first, const Value& second);

  // resizing.cc
  absl::Status AddResize(Node& node);
  absl::Status AddUpsample(Node& node);
  absl::Status AddPad(Node& node);
  absl::Status AddSlice(Node& node);
  absl::StatusOr<int> ReadScales(Node& node, size_t input);
  // Those of the channels from `start` on, before `end`.
  absl::Status AppendSlice(const Node& node, const Value& value, int64_t start, int64_t end);
  absl::Status AppendCrop(const Node& node, const Value& value, int crop_px);
  // Cuts off the height (2) and the width (3): half a crop where it is one of them alone.
  absl::Status AppendCuts(const Node& node, Value value, std::array<int, 4> cut_off_px);

  // rearranging.cc
  absl::Status AddConcat(Node& node);
  absl::Status AddDepthToSpace(Node& node);
  absl::Status AddReshape(Node& node);
  absl::Status AddTranspose(Node& node);
  absl::Status AddCast(Node& node);
  absl::Status AddConstant(Node& node);
  absl::Status AddIdentity(Node& node);
  absl::Status AppendPixelShuffle(const Node& node, const Value& value, int factor,
                                  bool depth_first);

  // A layer of `node` that reads `inputs` and, unless changed, gives as many channels as the first.
  Layer NewLayer(const Node& node, Op op, std::initializer_list<const Value*> inputs) const;
  absl::Status Append(const Node& node, Layer layer, Form form = Form::kPlanes);
  // As Append, but does not name the layer's result; its index.
  absl::StatusOr<int> AppendUnnamed(Layer layer);
  // Into the layer that `value` comes from where nobody else sees its plain result, else as a layer
  // of its own.
  absl::Status AppendActivation(const Node& node, const Value& value, Layer activation);
  absl::Status AppendAffine(const Node& node, const Value& value, Layer affine);
  // Names `value` as the node's output: for nodes that change nothing.
  absl::Status PassThrough(const Node& node, Value value);
  absl::Status SetOutput(const Node& node, Value value);

  // Input `i`, which must be there and of this form.
  absl::StatusOr<const Value*> Planes(const Node& node, size_t i) const;
  // Planes, or one value per channel in either form.
  absl::StatusOr<const Value*> Tensor(const Node& node, size_t i) const;
  absl::StatusOr<const TensorProto*> Constant(const Node& node, size_t i) const;
  // Integers of the attribute `name` or, in newer operator sets, input `i`; empty when neither is
  // there.
  absl::StatusOr<std::vector<int64_t>> IntsOf(Node& node, std::string_view name, size_t i);
  // One number for each channel of `value`, from a constant that is broadcast to it so.
  absl::StatusOr<std::vector<float>> ReadPerChannel(const TensorProto& constant,
                                                    const Value& value) const;
  int Channels(const Value& value) const { return network_.layers[value.layer].out_channels; }

  const GraphProto& graph_;
  Network network_;
  std::vector<bool> per_image_;         // for each layer: one value per channel
  std::map<std::string, int> readers_;  // the number for each value
  std::map<std::string, Value> values_;
  std::deque<TensorProto> own_constants_;  // the values of attributes that are no tensors
};

}  // namespace upscaled::onnx
