// Operators to move values, and the ones without an effect.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/axes.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

using Axes = std::vector<int64_t>;

// [1, factor, factor, channels ...] and [1, channels, factor, factor ...] as DepthToSpace has them.
constexpr int64_t kDepthFirst[] = {0, 3, 4, 1, 5, 2}, kDepthLast[] = {0, 1, 4, 2, 5, 3};
// [1, channels, height, factor, width, factor] to SpaceToDepth's.
constexpr int64_t kBlocksFirst[] = {0, 3, 5, 1, 2, 4};

View Permuted(const View& view, std::span<const int64_t> order) {
  View result;
  for (const int64_t axis : order) result.push_back(view[axis]);
  return result;
}

std::vector<PerProbe> Same(const std::vector<int64_t>& sides) {
  std::vector<PerProbe> result;
  std::transform(sides.begin(), sides.end(), std::back_inserter(result), SameForAll);
  return result;
}

std::vector<int64_t> FirstOf(const std::vector<PerProbe>& sides) {
  std::vector<int64_t> result;
  for (const PerProbe& side : sides) result.push_back(side[0]);
  return result;
}

absl::StatusOr<int> ReadBlocksize(Attributes& attributes) {
  ASSIGN_OR_RETURN(const int64_t factor, attributes.Int("blocksize", 0));
  if (factor >= 1 && factor <= kMaxFactor) return static_cast<int>(factor);
  return absl::InvalidArgumentError(
      absl::StrCat("blocksize is ", factor, ", outside 1..", kMaxFactor));
}

}  // namespace

absl::Status Builder::SetView(const Node& node, const Value& value, View view) {
  if (HasCut(value)) {
    return absl::UnimplementedError("rearranges planes that were cut to the image's size");
  }
  Value result = value;
  result.view = std::move(view);
  return PassThrough(node, std::move(result));
}

absl::Status Builder::AddConcat(Node& node) {
  ASSIGN_OR_RETURN(const int64_t given, node.attributes.Int("axis", 1));
  ASSIGN_OR_RETURN(const Value* first, Tensor(node, 0));
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, first->view.size()));
  const absl::Status unsupported = absl::UnimplementedError(
      absl::StrCat("axis ", given, " is not supported, only that of the channels"));
  View view = first->view;
  view[axis].clear();
  // Planes, unless all have their channels on this axis and look the same apart from it.
  bool alike = !HasCut(*first);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const Value* input, Tensor(node, i));
    View other = input->view;
    const bool sound = other.size() == view.size() && !HasCut(*input) &&
                       AreChannels(other, {axis}, Channels(*input)) && other[axis].size() <= 1;
    if (sound) other[axis].clear();
    alike = alike && sound && other == view;
  }
  if (!alike && (axis != 1 || view.size() != 4)) return unsupported;
  int64_t channels = 0;
  Layer layer = NewLayer(node, Op::kConcat, {first});
  layer.inputs.clear();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const Value* input, alike ? Tensor(node, i) : Planes(node, i));
    layer.inputs.push_back(input->layer);
    channels += Channels(*input);
    if (i == 0) layer.in_channels = Channels(*input);
  }
  if (channels > kMaxChannels) {
    return absl::InvalidArgumentError(
        absl::StrCat("gives ", channels, " channels, the limit is ", kMaxChannels));
  }
  layer.out_channels = static_cast<int>(channels);
  if (!alike) return Append(node, std::move(layer));
  view[axis] = {{Digit::kChannel, SameForAll(channels), 1}};
  Value result = *first;
  result.view = std::move(view);
  ASSIGN_OR_RETURN(result.layer, AppendUnnamed(std::move(layer)));
  result.shared = false;
  return SetOutput(node, std::move(result));
}

absl::Status Builder::AddDepthToSpace(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const int factor, ReadBlocksize(node.attributes));
  ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") {
    return absl::InvalidArgumentError(absl::StrCat("mode is ", Quote(mode), ", not DCR or CRD"));
  }
  const int channels = Channels(*input), area = factor * factor;
  if (channels % area != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot shuffle ", channels, " channels by ", factor, "x", factor));
  }
  const PerProbe height = SideOf(input->view[2]), width = SideOf(input->view[3]);
  const bool depth_first = mode == "DCR";
  std::vector<PerProbe> sides = Same(depth_first ? Axes{1, factor, factor, channels / area}
                                                 : Axes{1, channels / area, factor, factor});
  sides.insert(sides.end(), {height, width});
  ASSIGN_OR_RETURN(View view, Reshape(input->view, sides));
  view = Permuted(view, depth_first ? kDepthFirst : kDepthLast);
  sides = Same({1, channels / area, 1, 1});
  for (size_t i = 0; i < kProbes; ++i) {
    sides[2][i] = height[i] * factor;
    sides[3][i] = width[i] * factor;
  }
  ASSIGN_OR_RETURN(view, Reshape(view, sides));
  return SetView(node, *input, std::move(view));
}

absl::Status Builder::AddSpaceToDepth(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const int factor, ReadBlocksize(node.attributes));
  std::vector<PerProbe> sides = Same({1, Channels(*input), -1, factor, -1, factor});
  for (size_t i = 0; i < kProbes; ++i) {
    sides[2][i] = SideOf(input->view[2])[i] / factor;
    sides[4][i] = SideOf(input->view[3])[i] / factor;
  }
  ASSIGN_OR_RETURN(View view, Reshape(input->view, sides));
  view = Permuted(view, kBlocksFirst);
  ASSIGN_OR_RETURN(view, Reshape(view, {SameForAll(1),
                                        SameForAll(int64_t{1} * Channels(*input) * factor * factor),
                                        sides[2], sides[4]}));
  return SetView(node, *input, std::move(view));
}

// The planes' sides here follow from the image's in a straight line.
void Builder::NameSize(const Value& value, const std::vector<PerProbe>& sides) {
  if (!free_size_ || named_size_ || sides.size() < 2 || !ArePlanes(value)) return;
  const auto solve = [](const PerProbe& image, const PerProbe& here, const PerProbe& named) {
    const int64_t run = image[1] - image[0], rise = here[1] - here[0], side = named[0];
    const bool fixed = named == SameForAll(side) && side >= 1 && side <= kMaxChannels * kMaxFactor;
    return fixed && rise > 0 ? static_cast<int>(image[0] + (side - here[0]) * run / rise) : 0;
  };
  const Size size{solve(widths_, SideOf(value.view[3]), sides.back()),
                  solve(heights_, SideOf(value.view[2]), sides[sides.size() - 2])};
  if (size.width > 0 || size.height > 0) named_size_ = size;
}

absl::Status Builder::AddReshape(Node& node) {
  ASSIGN_OR_RETURN(Value * input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const std::vector<PerProbe> sides, SidesOf(node, "shape", 1));
  RETURN_IF_ERROR(node.attributes.Expect("allowzero", 0));
  NameSize(*input, sides);
  absl::StatusOr<View> view = Reshape(input->view, sides);
  // Once the values lie as they are seen, they may split in another way.
  if (!view.ok() && !HasCut(*input) && ToPlanes(input->view)) {
    RETURN_IF_ERROR(Rearrange(node.proto.input(0), *input));
    view = Reshape(input->view, sides);
  }
  if (view.ok()) return SetView(node, *input, *std::move(view));
  return absl::UnimplementedError(
      absl::StrCat("shape ", List(FirstOf(sides)), " is not supported: ", view.status().message()));
}

absl::Status Builder::AddFlatten(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const int64_t given, node.attributes.Int("axis", 1));
  const size_t axes = input->view.size();
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, axes));
  View view(2);
  for (size_t i = 0; i < axes; ++i) {
    Axis& to = view[static_cast<int64_t>(i) < axis ? 0 : 1];
    to.insert(to.end(), input->view[i].begin(), input->view[i].end());
  }
  return SetView(node, *input, std::move(view));
}

absl::Status Builder::AddTranspose(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(Axes order, node.attributes.Ints("perm"));
  if (order.empty()) {
    order.resize(input->view.size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  RETURN_IF_ERROR(CheckPermutation(order, input->view.size()));
  return SetView(node, *input, Permuted(input->view, order));
}

absl::Status Builder::AddSqueeze(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Axes axes, IntsOf(node, "axes", 1));
  ASSIGN_OR_RETURN(const std::vector<bool> named, MarkAxes(axes, input->view.size()));
  View view;
  for (size_t i = 0; i < named.size(); ++i) {
    const Axis& axis = input->view[i];
    if (named[i] && !axis.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("takes out axis ", i, ", which is not 1"));
    }
    if (axes.empty() ? !axis.empty() : !named[i]) view.push_back(axis);
  }
  return SetView(node, *input, std::move(view));
}

absl::Status Builder::AddUnsqueeze(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Axes axes, IntsOf(node, "axes", 1));
  const size_t count = input->view.size() + axes.size();
  if (count > kMaxTensorAxes) {
    return absl::UnimplementedError(
        absl::StrCat("gives ", count, " axes, the limit is ", kMaxTensorAxes));
  }
  ASSIGN_OR_RETURN(const std::vector<bool> added, MarkAxes(axes, count));
  View view;
  auto axis = input->view.begin();
  for (const bool add : added) view.push_back(add ? Axis() : *axis++);
  return SetView(node, *input, std::move(view));
}

absl::Status Builder::AddExpand(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const std::vector<PerProbe> sides, SidesOf(node, "shape", 1));
  View view = input->view;
  const bool fits = sides.size() <= view.size();
  for (size_t i = 0; fits && i < sides.size(); ++i) {
    Axis& axis = view[view.size() - sides.size() + i];
    const PerProbe& side = sides[i];
    if (side == SameForAll(1) || SameWhenAligned(side, SideOf(axis))) continue;
    const bool repeats =
        axis.empty() && side == SameForAll(side[0]) && side[0] > 1 && side[0] <= kMaxChannels;
    if (repeats) axis = {{Digit::kNothing, side, 0}};
    if (!repeats) view.clear();
    if (!repeats) break;
  }
  if (fits && !view.empty()) return SetView(node, *input, std::move(view));
  return absl::UnimplementedError(absl::StrCat("shape ", List(FirstOf(sides)),
                                               " is not supported, only channels are repeated"));
}

absl::Status Builder::AddTile(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const Axes repeats, IntsOf(node, "repeats", 1));
  View view = input->view;
  bool sound = repeats.size() == view.size();
  for (size_t i = 0; sound && i < view.size(); ++i) {
    if (repeats[i] == 1) continue;
    sound = repeats[i] > 1 && repeats[i] <= kMaxChannels && (i == 1 || view[i].empty());
    view[i].insert(view[i].begin(), {Digit::kNothing, SameForAll(repeats[i]), 0});
  }
  if (sound) return SetView(node, *input, std::move(view));
  return absl::UnimplementedError(
      absl::StrCat("repeats ", List(repeats), " are not supported, only of channels"));
}

// Channels of planes, in another order, or only one of them.
absl::Status Builder::AddGather(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const int64_t given, node.attributes.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, input->view.size()));
  ASSIGN_OR_RETURN(const TensorProto* indices, Constant(node, 1));
  ASSIGN_OR_RETURN(const Axes order, ReadInts(*indices));
  const int channels = Channels(*input);
  if (axis != 1 || indices->dims_size() > 1 || order.empty() ||
      static_cast<int>(order.size()) > kMaxChannels) {
    return absl::UnimplementedError(
        absl::StrCat("axis ", given, " by ", DescribeShape(*indices),
                     " indices is not supported, only that of the channels by a list"));
  }
  Layer layer = NewLayer(node, Op::kConv, {input});
  layer.out_channels = static_cast<int>(order.size());
  layer.weights.assign(order.size() * channels, 0.0f);
  layer.bias.assign(order.size(), 0.0f);
  for (size_t i = 0; i < order.size(); ++i) {
    ASSIGN_OR_RETURN(const int64_t channel, ToAxis(order[i], channels));
    layer.weights[i * channels + channel] = 1.0f;
  }
  if (per_image_[input->layer]) layer.op = Op::kFullyConnected;
  ASSIGN_OR_RETURN(const int index, AppendUnnamed(std::move(layer)));
  Value result = PlanesOf(index);
  if (indices->dims_size() == 0) result.view.erase(result.view.begin() + 1);
  return SetOutput(node, std::move(result));
}

// Planes with some neighbouring channels replaced: x[:, a:b] = updates.
absl::Status Builder::AddScatterNd(Node& node) {
  ASSIGN_OR_RETURN(const std::string reduction, node.attributes.String("reduction", "none"));
  ASSIGN_OR_RETURN(const Value* planes, Planes(node, 0));
  ASSIGN_OR_RETURN(const TensorProto* indices, Constant(node, 1));
  ASSIGN_OR_RETURN(const Value* updates, Planes(node, 2));
  ASSIGN_OR_RETURN(const Axes places, ReadInts(*indices));
  const int channels = Channels(*planes), count = Channels(*updates);
  // [1, count, 2]: the batch and the channel.
  bool sound = reduction == "none" && indices->dims_size() == 3 && indices->dims(0) == 1 &&
               indices->dims(1) == count && indices->dims(2) == 2 && !places.empty();
  for (size_t i = 0; sound && i < places.size(); i += 2) {
    const int64_t expected = places[1] + static_cast<int64_t>(i / 2);
    sound = places[i] == 0 && places[i + 1] == expected;
  }
  if (!sound || places[1] < 0 || places[1] + count > channels) {
    return absl::UnimplementedError(
        absl::StrCat("indices of ", DescribeShape(*indices),
                     " are not supported, only those of channels that are next to each other"));
  }
  const std::string& name = node.proto.output(0);
  const int64_t first = places[1], behind = first + count;
  Layer layer = NewLayer(node, Op::kConcat, {planes});
  layer.inputs.clear();
  const auto add_slice = [&](int64_t start, int64_t end) -> absl::Status {
    if (start == end) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Value part, SliceChannels(name, *planes, 1, start, end));
    layer.inputs.push_back(part.layer);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add_slice(0, first));
  layer.inputs.push_back(updates->layer);
  RETURN_IF_ERROR(add_slice(behind, channels));
  layer.in_channels = network_.layers[layer.inputs[0]].out_channels;
  return Append(node, std::move(layer));
}

absl::Status Builder::AddShape(Node& node) {
  if (!node.Has(0)) return absl::InvalidArgumentError("lacks input 0");
  const Value& input = *node.inputs[0];
  std::vector<PerProbe> sides;
  if (input.form == Form::kConstant) {
    sides = Same({input.constant->dims().begin(), input.constant->dims().end()});
  } else if (input.form == Form::kNumbers) {
    sides = Same((*input.numbers)[0].dims);
  } else {
    std::transform(input.view.begin(), input.view.end(), std::back_inserter(sides), SideOf);
  }
  const auto count = static_cast<int64_t>(sides.size());
  ASSIGN_OR_RETURN(int64_t start, node.attributes.Int("start", 0));
  ASSIGN_OR_RETURN(int64_t end, node.attributes.Int("end", count));
  for (int64_t* at : {&start, &end})
    *at = std::clamp<int64_t>(*at < 0 ? *at + count : *at, 0, count);
  SizedNumbers numbers(kProbes);
  for (size_t i = 0; i < kProbes; ++i) {
    for (int64_t side = start; side < end; ++side) {
      numbers[i].values.push_back(static_cast<double>(sides[side][i]));
    }
    numbers[i].dims = {static_cast<int64_t>(numbers[i].values.size())};
  }
  ASSIGN_OR_RETURN(Value value, ValueOf(std::move(numbers)));
  return SetOutput(node, std::move(value));
}

// We compute in float, for any type of float in the file.
absl::Status Builder::AddCast(Node& node) {
  ASSIGN_OR_RETURN(const int64_t to, node.attributes.Int("to", 0));
  RETURN_IF_ERROR(node.attributes.Int("saturate", 1).status());
  const Value* input = node.inputs[0];
  if (input == nullptr) return absl::InvalidArgumentError("lacks input 0");
  const int type = to > 0 && to < 100 ? static_cast<int>(to) : 0;
  const bool constant = input->form == Form::kConstant;
  const bool same = constant && input->constant->data_type() == type;
  const int from = constant ? input->constant->data_type() : TensorProto::FLOAT;
  const bool float_to_float = IsFloatType(type) && input->form != Form::kNumbers &&
                              (from == TensorProto::FLOAT || from == TensorProto::FLOAT16);
  if (same || float_to_float) return PassThrough(node, *input);
  if (constant || input->form == Form::kNumbers) return AddNumbers(node);
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
