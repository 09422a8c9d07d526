// Builds a network from ONNX's nodes: the origin of each value (builder.cc, values.cc) and the
// meaning of each operator (convolutions.cc, arithmetic.cc, normalising.cc, resizing.cc,
// cutting.cc, rearranging.cc, attending.cc).
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/model/network.h"
#include "engine/model/onnx/attributes.h"
#include "engine/model/onnx/numbers.h"
#include "engine/model/onnx/schema.pb.h"
#include "engine/model/onnx/view.h"

namespace upscaled::onnx {

// Turns ONNX's nodes into our layers, one by one, in the file's order, the order of execution.
class Builder {
 public:
  // Borrows the graph. `exported`: the size behind the graph's numbers, although its input does not
  // say so.
  explicit Builder(const GraphProto& graph, std::optional<Size> exported = std::nullopt)
      : graph_(graph), exported_(exported) {}

  // The graph's one input; first of all.
  absl::Status AddInput();
  // UNIMPLEMENTED or INVALID_ARGUMENT, without the node's name. RESOURCE_EXHAUSTED: computes more
  // than kMaxOnnxFolded numbers.
  absl::Status Add(const NodeProto& node);
  // The validated network.
  absl::StatusOr<Network> Finish();

  // The size of image in a node's numbers, if the input leaves it free: the graph may have been
  // exported at it. A side of 0 is not named.
  std::optional<Size> named_size() const { return named_size_; }

 private:
  enum class Form : uint8_t {
    kConstant,
    kNumbers,   // follow from the image's size
    kComputed,  // a layer's planes, seen by a view
  };
  // Pixels to cut off an end of an axis of planes.
  enum End : uint8_t { kTop, kBottom, kLeft, kRight };
  using Cut = std::array<PerProbe, 4>;  // by End
  struct Value {
    Form form = Form::kComputed;
    const TensorProto* constant = nullptr;
    std::shared_ptr<const SizedNumbers> numbers;
    int layer = -1;
    View view;            // without what is to be cut off
    bool shared = false;  // read more than once, or the same as a value that is
    Cut cut = {};         // off the layer's planes; the view is theirs, in order
  };
  struct Sides {
    PerProbe height, width;
  };
  // A node with its inputs; null for an omitted one.
  struct Node {
    explicit Node(const NodeProto& proto) : proto(proto), attributes(proto) {}
    const NodeProto& proto;
    Attributes attributes;
    std::vector<Value*> inputs;

    bool Has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
    bool HasConstant(size_t i) const { return Has(i) && inputs[i]->form == Form::kConstant; }
  };
  struct Operator {
    const char* name;
    size_t min_inputs, max_inputs;
    absl::Status (Builder::*add)(Node& node);
    size_t max_outputs = 1;
  };
  // How a convolution moves over its input.
  struct Window {
    int stride_px, padding_px;
  };
  // The image padded to multiples of something, before the first layer.
  struct Alignment {
    int pad_px, align_px;
    Sides image;
    Cut added;
  };
  static std::span<const Operator> Operators();
  static absl::Status Unsupported(const NodeProto& proto);
  absl::Status CheckAlignment(const Value& result);
  // Takes out layers without a reader: exporters leave such where only sizes were asked for.
  void RemoveUnread(int result);

  // convolutions.cc
  absl::Status AddConv(Node& node);
  absl::Status AddConvTranspose(Node& node);
  absl::Status AddGemm(Node& node);
  absl::Status AddMatMul(Node& node);
  absl::StatusOr<Window> ReadWindow(Node& node, int kernel_px);
  // Checks the shape [first, second, kernel, kernel] and reads the weights into `layer`.
  absl::Status ReadKernel(const Node& node, Layer& layer);
  absl::Status ReadBias(const Node& node, Layer& layer);
  // Products with a matrix [in][out], or [out][in] if it is transposed, of the last axis.
  absl::Status AddProduct(const Node& node, const Value& value, bool transposed);

  // arithmetic.cc
  absl::Status AddRelu(Node& node);
  absl::Status AddLeakyRelu(Node& node);
  absl::Status AddPRelu(Node& node);
  absl::Status AddCurve(Node& node);
  absl::Status AddTanh(Node& node);
  absl::Status AddClip(Node& node);
  absl::Status AddAdd(Node& node);
  absl::Status AddSub(Node& node);
  absl::Status AddMul(Node& node);
  absl::Status AddDiv(Node& node);
  absl::Status AddNeg(Node& node);
  absl::Status AddPow(Node& node);
  // factor * value + offset, for each channel.
  absl::Status AddAffine(const Node& node, const Value& value, std::vector<float> factor,
                         std::vector<float> offset);
  // Two tensors, neither a constant.
  absl::Status AddJoin(const Node& node, Op op, Value first, Value second);

  // normalising.cc
  absl::Status AddGlobalAveragePool(Node& node);
  absl::Status AddReduceMean(Node& node);
  absl::Status AddPixelNorm(Node& node);
  absl::Status AddNormalize(Node& node);
  absl::Status AddInstanceNormalization(Node& node);
  absl::Status AddGroupNormalization(Node& node);
  absl::Status AddBatchNormalization(Node& node);
  // Means of channels, as a convolution.
  absl::Status AppendChannelMean(const Node& node, const Value& value,
                                 const std::vector<int64_t>& axes, bool keep);
  absl::Status AppendGroupNorm(const Node& node, const Value& value, Layer norm);
  // Only along those axes: over the channels of a pixel, or over the image and groups of them.
  absl::Status AppendNorm(const Node& node, const Value& value, const std::vector<int64_t>& axes,
                          Layer norm);

  // attending.cc
  absl::Status AddWindowAttention(Node& node);
  // Queries and keys of length 1, times how sharp each head looks, and the values as they are.
  absl::StatusOr<int> AppendDirections(const Node& node, const Value& value,
                                       const std::vector<float>& sharpness);
  // Has images padded to whole windows, where their size is free.
  absl::Status PadToWindows();

  // resizing.cc
  absl::Status AddResize(Node& node);
  absl::Status AddUpsample(Node& node);
  // The whole factor of input `scales` or `sizes`.
  absl::StatusOr<int> ReadScales(Node& node, size_t scales, size_t sizes, const Value& value);

  // cutting.cc
  absl::Status AddPad(Node& node);
  absl::Status AddSlice(Node& node);
  absl::Status AddSplit(Node& node);
  // Planes with a border to make their sides multiples.
  absl::StatusOr<Value> Aligned(const Value& value, const Cut& added, Layer pad);
  static bool AlignsTo(const Sides& sides, const Cut& added, int multiple);
  // The channels from `start` on, before `end`, on an axis with all of them.
  absl::StatusOr<Value> SliceChannels(const std::string& name, Value value, int64_t axis,
                                      int64_t start, int64_t end);
  // Planes, perhaps with pixels still to cut off.
  absl::StatusOr<Value*> CutPlanes(const Node& node, size_t i);
  absl::StatusOr<Value> CutOff(const Value& value, const Cut& more) const;
  absl::Status SetCut(const Node& node, Value value);

  // rearranging.cc
  absl::Status AddConcat(Node& node);
  absl::Status AddDepthToSpace(Node& node);
  absl::Status AddSpaceToDepth(Node& node);
  absl::Status AddReshape(Node& node);
  absl::Status AddFlatten(Node& node);
  absl::Status AddTranspose(Node& node);
  absl::Status AddSqueeze(Node& node);
  absl::Status AddUnsqueeze(Node& node);
  absl::Status AddExpand(Node& node);
  absl::Status AddTile(Node& node);
  absl::Status AddGather(Node& node);
  absl::Status AddScatterNd(Node& node);
  absl::Status AddShape(Node& node);
  absl::Status AddCast(Node& node);
  absl::Status AddConstant(Node& node);
  absl::Status AddIdentity(Node& node);
  absl::Status SetView(const Node& node, const Value& value, View view);
  // A size of image at which planes have the last two sides; see named_size.
  void NameSize(const Value& value, const std::vector<PerProbe>& sides);

  // values.cc
  // Makes planes, with layers of this name, of what the value is a view of.
  absl::Status Rearrange(const std::string& name, Value& value);
  // The same, to planes with the channels last.
  absl::Status RearrangeChannelsLast(const std::string& name, Value& value);
  absl::Status FinishCut(const std::string& name, Value& value);
  bool IsWholeCut(const Cut& cut) const;
  // Pads `value` to as large planes as `other` has, with padding still to cut off.
  absl::Status GiveSlack(const Node& node, const Value& other, Value& value);
  // Whether pixels are still to be cut off: of one axis so far, or the pixels of padding to
  // multiples.
  static bool HasCut(const Value& value);
  bool ArePlanes(const Value& value) const;
  // Whether these are planes transposed to [1, height, width, channels].
  bool AreChannelsLast(const Value& value) const;
  static View ChannelsLast(const View& planes) {
    return {planes[0], planes[2], planes[3], planes[1]};
  }
  Value PlanesOf(int layer) const;

  // A layer with `inputs` and, unless changed, as many channels as the first.
  Layer NewLayer(const std::string& name, Op op, std::initializer_list<const Value*> inputs) const;
  Layer NewLayer(const Node& node, Op op, std::initializer_list<const Value*> inputs) const;
  // Planes.
  absl::Status Append(const Node& node, Layer layer);
  // Seen as `like` is, with as many channels.
  absl::Status AppendLike(const Node& node, Layer layer, const Value& like);
  // As Append, but does not name the layer's result; its index.
  absl::StatusOr<int> AppendUnnamed(Layer layer);
  // Into the layer of `value` if no other layer sees its plain result, otherwise as a layer of its
  // own.
  absl::Status AppendActivation(const Node& node, const Value& value, Layer activation);
  absl::Status AppendAffine(const Node& node, const Value& value, Layer affine);
  // Names `value` as the node's output: for nodes without an effect.
  absl::Status PassThrough(const Node& node, Value value);
  absl::Status SetOutput(const Node& node, Value value, int i = 0);

  // A node with numbers as inputs.
  absl::Status AddNumbers(Node& node);
  absl::StatusOr<SizedNumbers> NumbersOf(const Value& value);
  absl::StatusOr<Value> ValueOf(SizedNumbers numbers);
  absl::Status Charge(int64_t count);

  // Input `i`, present and computed; its pixels to cut off are cut off, except slack.
  absl::StatusOr<Value*> Tensor(const Node& node, size_t i);
  // And planes.
  absl::StatusOr<Value*> Planes(const Node& node, size_t i);
  absl::StatusOr<const TensorProto*> Constant(const Node& node, size_t i) const;
  // Integers of the attribute `name` or, in newer operator sets, input `i`; empty when neither is
  // there.
  absl::StatusOr<std::vector<int64_t>> IntsOf(Node& node, std::string_view name, size_t i);
  // The same, where they may follow from the image's size.
  absl::StatusOr<std::vector<PerProbe>> SidesOf(Node& node, std::string_view name, size_t i);
  // One number for each channel of `value`, from a constant broadcast to it.
  absl::StatusOr<std::vector<float>> ReadPerChannel(const TensorProto& constant,
                                                    const Value& value) const;
  // The constant's value for each channel; nullopt: it tells other things apart.
  std::optional<std::vector<int64_t>> PlacesOf(const TensorProto& constant,
                                               const Value& value) const;
  int Channels(const Value& value) const { return network_.layers[value.layer].out_channels; }

  const GraphProto& graph_;
  const std::optional<Size> exported_;
  std::optional<Size> named_size_;
  bool free_size_ = false;
  PerProbe heights_ = {}, widths_ = {};  // the image's
  std::optional<Alignment> alignment_;
  int64_t least_windows_ = 1;  // of attention along an axis, if the file does not pad
  bool aligned_ = false;       // planes were padded to multiples, the image or what follows from it
  Network network_;
  std::vector<bool> per_image_;         // for each layer: one value per channel
  std::vector<Sides> sides_;            // of each layer
  std::map<std::string, int> readers_;  // the number for each value
  std::map<std::string, Value> values_;
  std::deque<TensorProto> own_constants_;  // attributes that are no tensors, and what was computed
  int64_t folded_ = 0;
};

}  // namespace upscaled::onnx
