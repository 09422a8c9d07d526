#include "engine/model/onnx/exporter.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/model/onnx/schema.pb.h"
#include "engine/model/op.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is copied as it is");

constexpr int64_t kIrVersion = 7;
constexpr char kImage[] = "image", kResult[] = "result";

// The first operator set with all of the network's needs.
int64_t OperatorSetFor(const Network& network) {
  int64_t set = 13;
  for (const Layer& layer : network.layers) {
    const bool gelu =
        layer.activation == Activation::kGelu || layer.activation == Activation::kGeluTanh;
    if (layer.activation == Activation::kMish) set = std::max<int64_t>(set, 18);
    if (gelu) set = std::max<int64_t>(set, 20);
    // LayerNormalization and RMSNormalization.
    if (layer.op == Op::kPixelNorm) set = std::max<int64_t>(set, layer.centred ? 17 : 23);
  }
  return set;
}

bool PadsToMultiple(const Layer& layer) { return layer.op == Op::kPad && layer.factor > 1; }

// Writes one node for each layer, its border and its activation.
class Writer {
 public:
  explicit Writer(const Network& network) : network_(network) {
    model_.set_ir_version(kIrVersion);
    model_.add_opset_import()->set_version(OperatorSetFor(network));
    graph().set_name(network.name.empty() ? "network" : network.name);
    Describe(kImage, *graph().add_input());
    Describe(kResult, *graph().add_output());
  }

  std::string Write() {
    const bool aligned = network_.align_px > 1;
    const bool cuts = aligned || std::ranges::any_of(network_.layers, PadsToMultiple);
    values_.push_back(kImage);
    if (aligned) {
      values_[0] = PadToMultiple(kImage, PadMode::kReplicate, network_.pad_px, network_.align_px,
                                 Border::kCounts, 0, "padded_image");
    } else if (network_.pad_px > 0) {
      values_[0] = Pad(kImage, PadMode::kReplicate, network_.pad_px, 0, "padded_image");
    }
    for (size_t i = 1; i < network_.layers.size(); ++i) {
      const Layer& layer = network_.layers[i];
      const bool last = i + 1 == network_.layers.size();
      const std::string name = last && !cuts ? kResult : absl::StrCat("layer", i);
      if (layer.activation == Activation::kNone) {
        values_.push_back(Compute(layer, name));
        continue;
      }
      const std::string plain =
          layer.op == Op::kActivation ? Input(layer, 0) : Compute(layer, name + "_before");
      values_.push_back(Activate(layer, plain, name));
    }
    if (cuts) CutToSize(values_.back());
    return model_.SerializeAsString();
  }

 private:
  // Whether the border is a part of the sides that become multiples.
  enum class Border { kCounts, kComesAfter };

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  const std::string& Input(const Layer& layer, size_t i) const { return values_[layer.inputs[i]]; }

  static void Describe(const char* name, onnx::ValueInfoProto& info) {
    info.set_name(name);
    onnx::TypeProto::Tensor& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    type.mutable_shape()->add_dim()->set_dim_value(1);
    type.mutable_shape()->add_dim()->set_dim_value(3);
    type.mutable_shape()->add_dim()->set_dim_param(absl::StrCat(name, "_height"));
    type.mutable_shape()->add_dim()->set_dim_param(absl::StrCat(name, "_width"));
  }

  onnx::NodeProto& Node(const char* op, const std::vector<std::string>& inputs,
                        const std::string& output) {
    onnx::NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    node.set_name(output);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }
  static onnx::AttributeProto& Attribute(onnx::NodeProto& node, const char* name,
                                         onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  static void SetInt(onnx::NodeProto& node, const char* name, int64_t value) {
    Attribute(node, name, onnx::AttributeProto::INT).set_i(value);
  }
  static void SetInts(onnx::NodeProto& node, const char* name, size_t count, int64_t value) {
    onnx::AttributeProto& attribute = Attribute(node, name, onnx::AttributeProto::INTS);
    for (size_t i = 0; i < count; ++i) attribute.add_ints(value);
  }
  static void SetString(onnx::NodeProto& node, const char* name, const char* value) {
    Attribute(node, name, onnx::AttributeProto::STRING).set_s(value);
  }

  template <typename T>
  std::string Constant(onnx::TensorProto::DataType type, const std::vector<int64_t>& dims,
                       const std::vector<T>& values, std::string name) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    tensor.mutable_dims()->Assign(dims.begin(), dims.end());
    tensor.set_raw_data(values.data(), values.size() * sizeof(T));
    return name;
  }
  std::string Floats(const std::vector<int64_t>& dims, const std::vector<float>& values,
                     std::string name) {
    return Constant(onnx::TensorProto::FLOAT, dims, values, std::move(name));
  }
  std::string Ints(const std::vector<int64_t>& values, std::string name) {
    return Constant(onnx::TensorProto::INT64, {static_cast<int64_t>(values.size())}, values,
                    std::move(name));
  }

  std::string Pad(const std::string& input, PadMode mode, int64_t pad_px, float value,
                  const std::string& name) {
    return PadBy(input, Ints({0, 0, pad_px, pad_px, 0, 0, pad_px, pad_px}, name + "_pads"), mode,
                 value, name);
  }

  // Adds pad_px on every side, and on the right and at the bottom the pixels that the sides lack to
  // multiples, with the border or without it. Mod's result has the sign of the divisor.
  std::string PadToMultiple(const std::string& input, PadMode mode, int64_t pad_px,
                            int64_t multiple, Border border, float value, const std::string& name) {
    const std::string sides = SidesOf(input, name + "_sides");
    const int64_t counted_px = border == Border::kCounts ? -2 * pad_px : 0;
    Node("Sub", {Ints({counted_px, counted_px}, name + "_minus_border"), sides},
         name + "_minus_padded_sides");
    Node("Mod", {name + "_minus_padded_sides", Ints({multiple, multiple}, name + "_multiple")},
         name + "_missing");
    Node("Add", {name + "_missing", Ints({pad_px, pad_px}, name + "_border")}, name + "_end_pads");
    SetInt(Node("Concat",
                {Ints({0, 0, pad_px, pad_px, 0, 0}, name + "_begin_pads"), name + "_end_pads"},
                name + "_pads"),
           "axis", 0);
    return PadBy(input, name + "_pads", mode, value, name);
  }

  std::string PadBy(const std::string& input, const std::string& pads, PadMode mode, float value,
                    const std::string& name) {
    std::vector<std::string> inputs = {input, pads};
    if (mode == PadMode::kConstant) inputs.push_back(Floats({}, {value}, name + "_value"));
    SetString(Node("Pad", inputs, name), "mode",
              mode == PadMode::kConstant    ? "constant"
              : mode == PadMode::kReplicate ? "edge"
                                            : "reflect");
    return name;
  }

  // Height and width of planes.
  std::string SidesOf(const std::string& planes, const std::string& name) {
    Node("Shape", {planes}, name + "_shape");
    Node("Slice", {name + "_shape", Ints({2}, name + "_first"), Ints({4}, name + "_end")}, name);
    return name;
  }

  void CutToSize(const std::string& whole) {
    const int64_t scale = network_.scale;
    Node("Mul", {SidesOf(kImage, "sides"), Ints({scale, scale}, "scale")}, "result_sides");
    Node("Slice",
         {whole, Ints({0, 0}, "result_first"), "result_sides", Ints({2, 3}, "result_axes")},
         kResult);
  }

  // A fully connected layer's, too: a convolution of 1x1 on one value per channel.
  std::string Convolve(const Layer& layer, const std::string& name) {
    const bool transposed = layer.op == Op::kConvTranspose;
    const int64_t first = transposed ? layer.in_channels : layer.out_channels;
    const int64_t second = transposed ? layer.out_channels : layer.in_channels / layer.groups;
    const int64_t side = layer.op == Op::kFullyConnected ? 1 : layer.kernel_px;
    onnx::NodeProto& node =
        Node(transposed ? "ConvTranspose" : "Conv",
             {Input(layer, 0), Floats({first, second, side, side}, layer.weights, name + "_weight"),
              Floats({layer.out_channels}, layer.bias, name + "_bias")},
             name);
    SetInts(node, "kernel_shape", 2, side);
    if (layer.op == Op::kFullyConnected) return name;
    SetInts(node, "strides", 2, layer.stride_px);
    SetInts(node, "pads", 4, layer.padding_px);
    if (layer.op == Op::kGroupedConv) SetInt(node, "group", layer.groups);
    return name;
  }

  std::string Resize(const Layer& layer, const std::string& name) {
    const auto factor = static_cast<float>(layer.factor);
    const bool nearest = layer.op == Op::kResizeNearest;
    onnx::NodeProto& node =
        Node("Resize", {Input(layer, 0), "", Floats({4}, {1, 1, factor, factor}, name + "_scales")},
             name);
    SetString(node, "mode", nearest ? "nearest" : "linear");
    SetString(node, "coordinate_transformation_mode", nearest ? "asymmetric" : "half_pixel");
    if (nearest) SetString(node, "nearest_mode", "floor");
    return name;
  }

  std::string Crop(const Layer& layer, const std::string& name) {
    const int64_t crop_px = layer.crop_px;
    if (crop_px == 0) {
      Node("Identity", {Input(layer, 0)}, name);
    } else {
      Node("Slice",
           {Input(layer, 0), Ints({crop_px, crop_px}, name + "_starts"),
            Ints({-crop_px, -crop_px}, name + "_ends"), Ints({2, 3}, name + "_axes")},
           name);
    }
    return name;
  }

  std::string Scale(const Layer& layer, const std::string& name) {
    const std::vector<int64_t> dims = {1, layer.out_channels, 1, 1};
    Node("Mul", {Input(layer, 0), Floats(dims, layer.weights, name + "_factor")}, name + "_scaled");
    Node("Add", {name + "_scaled", Floats(dims, layer.bias, name + "_offset")}, name);
    return name;
  }

  std::string Slice(const Layer& layer, const std::string& name) {
    const int64_t first = layer.first_channel, channels = layer.out_channels;
    Node("Slice",
         {Input(layer, 0), Ints({first}, name + "_start"), Ints({first + channels}, name + "_end"),
          Ints({1}, name + "_axis")},
         name);
    return name;
  }

  std::string Transpose(const std::string& input, const std::vector<int64_t>& order,
                        const std::string& name) {
    Attribute(Node("Transpose", {input}, name), "perm", onnx::AttributeProto::INTS)
        .mutable_ints()
        ->Assign(order.begin(), order.end());
    return name;
  }

  std::string NormalisePixels(const Layer& layer, const std::string& name) {
    const std::vector<int64_t> dims = {layer.out_channels};
    std::vector<std::string> inputs = {Transpose(Input(layer, 0), {0, 2, 3, 1}, name + "_last"),
                                       Floats(dims, layer.weights, name + "_weight")};
    if (layer.centred) inputs.push_back(Floats(dims, layer.bias, name + "_bias"));
    onnx::NodeProto& node =
        Node(layer.centred ? "LayerNormalization" : "RMSNormalization", inputs, name + "_normal");
    SetInt(node, "axis", -1);
    Attribute(node, "epsilon", onnx::AttributeProto::FLOAT).set_f(layer.epsilon);
    if (layer.centred) return Transpose(name + "_normal", {0, 3, 1, 2}, name);
    Transpose(name + "_normal", {0, 3, 1, 2}, name + "_planes");
    Node("Add",
         {name + "_planes", Floats({1, layer.out_channels, 1, 1}, layer.bias, name + "_offset")},
         name);
    return name;
  }

  std::string ShufflePixels(const Layer& layer, const std::string& name) {
    onnx::NodeProto& node = Node("DepthToSpace", {Input(layer, 0)}, name);
    SetInt(node, "blocksize", layer.factor);
    SetString(node, "mode", "CRD");
    return name;
  }

  std::string Concatenate(const Layer& layer, const std::string& name) {
    std::vector<std::string> inputs;
    for (size_t i = 0; i < layer.inputs.size(); ++i) inputs.push_back(Input(layer, i));
    SetInt(Node("Concat", inputs, name), "axis", 1);
    return name;
  }

  // A node without attributes.
  std::string Plain(const char* op, const std::vector<std::string>& inputs,
                    const std::string& name) {
    Node(op, inputs, name);
    return name;
  }

  // The layer without its activation.
  std::string Compute(const Layer& layer, const std::string& name) {
    switch (layer.op) {
      case Op::kInput:            // the first one is the image
      case Op::kGroupNorm:        // refused before
      case Op::kWindowAttention:  // refused before
      case Op::kChannelProducts:
      case Op::kChannelAttention:
      case Op::kSample:
      case Op::kPartAttention:
      case Op::kGridToWindows:
      case Op::kWindowsToGrid:
      case Op::kMaxPool:
      case Op::kAddResized:
        return name;
      case Op::kConv:
      case Op::kGroupedConv:
      case Op::kConvTranspose:
      case Op::kFullyConnected:
        return Convolve(layer, name);
      case Op::kPixelShuffle:
        return ShufflePixels(layer, name);
      case Op::kResizeNearest:
      case Op::kResizeBilinear:
        return Resize(layer, name);
      case Op::kAdd:
        return Plain("Add", {Input(layer, 0), Input(layer, 1)}, name);
      case Op::kMul:
        return Plain("Mul", {Input(layer, 0), Input(layer, 1)}, name);
      case Op::kConcat:
        return Concatenate(layer, name);
      case Op::kSlice:
        return Slice(layer, name);
      case Op::kPixelNorm:
        return NormalisePixels(layer, name);
      case Op::kCrop:
        return Crop(layer, name);
      case Op::kPad:
        if (PadsToMultiple(layer)) {
          return PadToMultiple(Input(layer, 0), layer.pad_mode, layer.padding_px, layer.factor,
                               Border::kComesAfter, layer.pad_value, name);
        }
        return Pad(Input(layer, 0), layer.pad_mode, layer.padding_px, layer.pad_value, name);
      case Op::kAffine:
        return Scale(layer, name);
      case Op::kGlobalAveragePool:
        return Plain("GlobalAveragePool", {Input(layer, 0)}, name);
      case Op::kActivation:
        return Plain("Identity", {Input(layer, 0)}, name);
    }
    return name;
  }

  std::string Activate(const Layer& layer, const std::string& input, const std::string& name) {
    switch (layer.activation) {
      case Activation::kNone:
        return name;
      case Activation::kRelu:
        return Plain("Relu", {input}, name);
      case Activation::kLeakyRelu:
        Attribute(Node("LeakyRelu", {input}, name), "alpha", onnx::AttributeProto::FLOAT)
            .set_f(layer.slope[0]);
        return name;
      case Activation::kPRelu:
        return Plain("PRelu",
                     {input, Floats({layer.out_channels, 1, 1}, layer.slope, name + "_slope")},
                     name);
      case Activation::kSigmoid:
        return Plain("Sigmoid", {input}, name);
      case Activation::kSilu:  // before operator set 24
        return Plain("Mul", {input, Plain("Sigmoid", {input}, name + "_sigmoid")}, name);
      case Activation::kMish:
        return Plain("Mish", {input}, name);
      case Activation::kGelu:
        return Plain("Gelu", {input}, name);
      case Activation::kGeluTanh:
        SetString(Node("Gelu", {input}, name), "approximate", "tanh");
        return name;
      case Activation::kSoftplus:
        return Plain("Softplus", {input}, name);
      case Activation::kClip:
        return Plain("Clip",
                     {input, Floats({}, {layer.clip_min}, name + "_min"),
                      Floats({}, {layer.clip_max}, name + "_max")},
                     name);
    }
    return name;
  }

  const Network& network_;
  onnx::ModelProto model_;
  std::vector<std::string> values_;  // of the layers, by index
};

}  // namespace

absl::StatusOr<std::string> ExportOnnx(const Network& network) {
  for (const Layer& layer : network.layers) {
    if (layer.op != Op::kGroupNorm && !IsExactOnly(layer)) continue;
    return absl::UnimplementedError(absl::StrCat("layer ", Quote(layer.name), " is a ",
                                                 ToAbsl(OpName(layer.op)),
                                                 ", which is not exported to ONNX"));
  }
  return Writer(network).Write();
}

}  // namespace upscaled
