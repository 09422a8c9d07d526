// Operators that move values, and those that do nothing.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/fuse.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

using Axes = std::vector<int64_t>;

// The orders of axes that a pixel shuffle transposes to [1, channels, height, dy, width, dx]:
// from [1, channels, dy, dx, height, width], and from [1, dy, dx, channels, height, width].
constexpr std::array<int64_t, 6> kColumnRowDepth = {0, 1, 4, 2, 5, 3};
constexpr std::array<int64_t, 6> kDepthColumnRow = {0, 3, 4, 1, 5, 2};
// To [1, height, width, channels] and back.
constexpr std::array<int64_t, 4> kChannelsBehind = {0, 2, 3, 1};
constexpr std::array<int64_t, 4> kChannelsBefore = {0, 3, 1, 2};

bool IsAny(int64_t dim) { return dim == -1 || dim > 0; }

}  // namespace

absl::Status Builder::AddConcat(Node& node) {
  ASSIGN_OR_RETURN(const int64_t axis, node.attributes.Int("axis", 1));
  if (axis != 1 && axis != -3) {
    return absl::UnimplementedError(
        absl::StrCat("axis ", axis, " is not supported, only that of the channels"));
  }
  ASSIGN_OR_RETURN(const Value* first, Planes(node, 0));
  Layer layer = NewLayer(node, Op::kConcat, {first});
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const Value* input, Planes(node, i));
    layer.inputs.push_back(input->layer);
    layer.out_channels += Channels(*input);
    if (layer.out_channels > kMaxChannels) {
      return absl::InvalidArgumentError(
          absl::StrCat("gives ", layer.out_channels, " channels, the limit is ", kMaxChannels));
    }
  }
  return Append(node, std::move(layer));
}

absl::Status Builder::AppendPixelShuffle(const Node& node, const Value& value, int factor,
                                         bool depth_first) {
  const int channels = Channels(value), area = factor * factor;
  if (channels % area != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot shuffle ", channels, " channels by ", factor, "x", factor));
  }
  Layer layer = NewLayer(node, Op::kPixelShuffle, {&value});
  layer.factor = factor;
  layer.out_channels = channels / area;
  if (depth_first) {
    const std::vector<int> order = DepthFirstOrder(channels, factor);
    if (value.shared || !FusePermutation(order, network_.layers[value.layer])) {
      Layer permutation = MakePermutation(order);
      permutation.name = layer.name;
      permutation.inputs = layer.inputs;
      ASSIGN_OR_RETURN(layer.inputs[0], AppendUnnamed(std::move(permutation)));
    }
  }
  return Append(node, std::move(layer));
}

absl::Status Builder::AddDepthToSpace(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const int64_t factor, node.attributes.Int("blocksize", 0));
  ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "DCR"));
  if (factor < 1 || factor > kMaxFactor) {
    return absl::InvalidArgumentError(
        absl::StrCat("blocksize is ", factor, ", outside 1..", kMaxFactor));
  }
  if (mode != "DCR" && mode != "CRD") {
    return absl::InvalidArgumentError(absl::StrCat("mode is ", Quote(mode), ", not DCR or CRD"));
  }
  return AppendPixelShuffle(node, *input, static_cast<int>(factor), mode == "DCR");
}

// Three uses: to the six axes of a pixel shuffle, back to four, and of one value per channel.
absl::Status Builder::AddReshape(Node& node) {
  ASSIGN_OR_RETURN(const Axes shape, IntsOf(node, "shape", 1));
  RETURN_IF_ERROR(node.attributes.Expect("allowzero", 0));
  const absl::Status unsupported = absl::UnimplementedError(
      absl::StrCat("shape ", List(shape), " is not supported, only the steps of a pixel shuffle"));
  if (shape.size() < 2 || shape.size() > 6 || (shape[0] != 1 && shape[0] > 0)) return unsupported;
  const Value* input = node.inputs[0];
  if (input != nullptr && input->form == Form::kShuffled) {
    const int channels = Channels(*input) / (input->factor * input->factor);
    if (shape.size() != 4 || (shape[1] != channels && shape[1] != -1) || !IsAny(shape[2]) ||
        !IsAny(shape[3])) {
      return unsupported;
    }
    return AppendPixelShuffle(node, *input, input->factor, input->depth_first);
  }
  ASSIGN_OR_RETURN(input, Tensor(node, 0));
  Value result = *input;
  const int channels = Channels(*input);
  if (per_image_[input->layer]) {
    const bool planes = shape.size() == 4 && shape[2] == 1 && shape[3] == 1;
    if ((shape.size() != 2 && !planes) || (shape[1] != channels && shape[1] != -1)) {
      return unsupported;
    }
    result.form = planes ? Form::kPlanes : Form::kFlat;
    return PassThrough(node, result);
  }
  if (shape.size() != 6 || !IsAny(shape[4]) || !IsAny(shape[5])) return unsupported;
  int64_t product = 1;
  for (int i = 0; i < 3; ++i) {
    result.blocks[i] = shape[i + 1];
    if (shape[i + 1] < 1 || shape[i + 1] > kMaxChannels) return unsupported;
    product *= shape[i + 1];
  }
  if (product != channels) return unsupported;
  result.form = Form::kBlocks;
  return PassThrough(node, result);
}

absl::Status Builder::AddTranspose(Node& node) {
  ASSIGN_OR_RETURN(const Axes order, node.attributes.Ints("perm"));
  const auto is = [&order](const auto& axes) { return order == Axes(axes.begin(), axes.end()); };
  const Value* input = node.inputs[0];
  if (is(kChannelsBehind)) {
    ASSIGN_OR_RETURN(input, Planes(node, 0));
    Value result = *input;
    result.form = Form::kChannelsLast;
    return PassThrough(node, result);
  }
  if (is(kChannelsBefore) && input != nullptr && input->form == Form::kChannelsLast) {
    Value result = *input;
    result.form = Form::kPlanes;
    return PassThrough(node, result);
  }
  const bool depth_first = is(kDepthColumnRow);
  if (input == nullptr || input->form != Form::kBlocks || (!depth_first && !is(kColumnRowDepth))) {
    return absl::UnimplementedError(
        absl::StrCat("perm ", List(order),
                     " is not supported, only the middle step of a pixel shuffle, and the ",
                     "channels to the end and back"));
  }
  const int64_t rows = input->blocks[depth_first ? 0 : 1];
  const int64_t columns = input->blocks[depth_first ? 1 : 2];
  if (rows != columns || rows > kMaxFactor) {
    return absl::UnimplementedError(
        absl::StrCat("blocks of ", columns, "x", rows, " must be square and at most ", kMaxFactor));
  }
  Value result = *input;
  result.form = Form::kShuffled;
  result.factor = static_cast<int>(rows);
  result.depth_first = depth_first;
  return PassThrough(node, result);
}

// We compute in float, whatever the file's type of float.
absl::Status Builder::AddCast(Node& node) {
  ASSIGN_OR_RETURN(const int64_t to, node.attributes.Int("to", 0));
  RETURN_IF_ERROR(node.attributes.Int("saturate", 1).status());
  const Value* input = node.inputs[0];
  if (input == nullptr) return absl::InvalidArgumentError("lacks input 0");
  const int type = to > 0 && to < 100 ? static_cast<int>(to) : 0;
  const bool same = input->form == Form::kConstant && input->constant->data_type() == type;
  const bool float_to_float = IsFloatType(type) && (input->form != Form::kConstant ||
                                                    IsFloatType(input->constant->data_type()));
  if (same || float_to_float) return PassThrough(node, *input);
  return absl::UnimplementedError(absl::StrCat("to ", DataTypeName(type), " is not supported, ",
                                               "only from one type of float to another"));
}

absl::Status Builder::AddConstant(Node& node) {
  Attributes& attributes = node.attributes;
  ASSIGN_OR_RETURN(const TensorProto* tensor, attributes.Tensor("value"));
  if (tensor == nullptr) {
    TensorProto& own = own_constants_.emplace_back();
    own.set_name(node.proto.output(0));
    ASSIGN_OR_RETURN(const float number, attributes.Float("value_float", 0));
    ASSIGN_OR_RETURN(const int64_t integer, attributes.Int("value_int", 0));
    ASSIGN_OR_RETURN(std::vector<float> floats, attributes.Floats("value_floats"));
    ASSIGN_OR_RETURN(std::vector<int64_t> ints, attributes.Ints("value_ints"));
    if (attributes.Has("value_floats") || attributes.Has("value_ints")) {
      own.add_dims(static_cast<int64_t>(std::max(floats.size(), ints.size())));
    }
    if (attributes.Has("value_float")) floats = {number};
    if (attributes.Has("value_int")) ints = {integer};
    own.set_data_type(floats.empty() ? TensorProto::INT64 : TensorProto::FLOAT);
    own.mutable_float_data()->Assign(floats.begin(), floats.end());
    own.mutable_int64_data()->Assign(ints.begin(), ints.end());
    tensor = &own;
  }
  return SetOutput(node, {.form = Form::kConstant, .constant = tensor});
}

absl::Status Builder::AddIdentity(Node& node) {
  if (node.inputs[0] == nullptr) return absl::InvalidArgumentError("lacks input 0");
  return PassThrough(node, *node.inputs[0]);
}

}  // namespace upscaled::onnx
