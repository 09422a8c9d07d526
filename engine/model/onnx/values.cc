// The values of a graph: layers' planes and views of them, and numbers.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/fuse.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/evaluate.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"
#include "engine/model/shapes.h"

namespace upscaled::onnx {
namespace {

bool IsNothing(const PerProbe& px) { return px == SameForAll(0); }

// A convolution with each of `taps` from the channels of a block of pixels.
Layer MakeTaps(const Rearrangement& planes, int channels) {
  const int side = planes.unshuffle;
  const size_t area = static_cast<size_t>(side) * side;
  Layer layer{.op = Op::kConv, .kernel_px = side, .stride_px = side};
  layer.out_channels = static_cast<int>(planes.taps.size());
  layer.weights.assign(planes.taps.size() * channels * area, 0.0f);
  layer.bias.assign(planes.taps.size(), 0.0f);
  for (size_t i = 0; i < planes.taps.size(); ++i) {
    const Rearrangement::Tap& tap = planes.taps[i];
    layer.weights[(i * channels + tap.channel) * area + tap.row * side + tap.column] = 1.0f;
  }
  return layer;
}

std::vector<int> ChannelsOf(const Rearrangement& planes) {
  std::vector<int> order;
  for (const Rearrangement::Tap& tap : planes.taps) order.push_back(tap.channel);
  return order;
}

bool CountsUp(const std::vector<int>& order) {
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i] != order[i - 1] + 1) return false;
  }
  return true;
}

bool IsPermutation(std::vector<int> order, int channels) {
  std::sort(order.begin(), order.end());
  return static_cast<int>(order.size()) == channels && order[0] == 0 && CountsUp(order);
}

}  // namespace

bool Builder::HasCut(const Value& value) {
  return !std::all_of(value.cut.begin(), value.cut.end(), IsNothing);
}

Builder::Value Builder::PlanesOf(int layer) const {
  return {.layer = layer,
          .view = ViewPlanes(network_.layers[layer].out_channels, sides_[layer].height,
                             sides_[layer].width)};
}

bool Builder::ArePlanes(const Value& value) const {
  return value.view == PlanesOf(value.layer).view;
}

bool Builder::AreChannelsLast(const Value& value) const {
  return value.view == ChannelsLast(PlanesOf(value.layer).view);
}

absl::Status Builder::Rearrange(const std::string& name, Value& value) {
  const std::optional<Rearrangement> planes = ToPlanes(value.view);
  if (!planes) {
    return absl::UnimplementedError(
        "is rearranged to other than planes, blocks of pixels or a pixel shuffle");
  }
  const int channels = Channels(value);
  const std::vector<int> order = ChannelsOf(*planes);
  const auto append = [&](Layer layer) -> absl::Status {
    layer.name = name;
    layer.inputs = {value.layer};
    layer.in_channels = Channels(value);
    ASSIGN_OR_RETURN(const int index, AppendUnnamed(std::move(layer)));
    value = PlanesOf(index);
    return absl::OkStatus();
  };
  const bool moves_channels =
      planes->unshuffle == 1 && !(CountsUp(order) && static_cast<int>(order.size()) == channels);
  if (planes->unshuffle > 1) {
    RETURN_IF_ERROR(append(MakeTaps(*planes, channels)));
  } else if (moves_channels && CountsUp(order)) {
    RETURN_IF_ERROR(append({.op = Op::kSlice,
                            .out_channels = static_cast<int>(order.size()),
                            .first_channel = order[0]}));
  } else if (moves_channels && (value.shared || !IsPermutation(order, channels) ||
                                !FusePermutation(order, network_.layers[value.layer]))) {
    RETURN_IF_ERROR(append(MakeTaps(*planes, channels)));
  }
  if (planes->shuffle > 1) {
    const int area = planes->shuffle * planes->shuffle;
    RETURN_IF_ERROR(append({.op = Op::kPixelShuffle,
                            .out_channels = Channels(value) / area,
                            .factor = planes->shuffle}));
  }
  const bool shared = value.shared;
  value = PlanesOf(value.layer);
  value.shared = shared;
  return absl::OkStatus();
}

absl::Status Builder::RearrangeChannelsLast(const std::string& name, Value& value) {
  if (AreChannelsLast(value)) return absl::OkStatus();
  Value planes = value;
  planes.view = {value.view[0], value.view[3], value.view[1], value.view[2]};
  RETURN_IF_ERROR(Rearrange(name, planes));
  planes.view = ChannelsLast(planes.view);
  value = std::move(planes);
  return absl::OkStatus();
}

// The same off every side of an image without padding to a multiple; all the same if this is the
// only size.
bool Builder::IsWholeCut(const Cut& cut) const {
  const int64_t crop_px = cut[kTop][0];
  if (cut[kTop] != SameForAll(crop_px) || cut[kLeft] != cut[kTop]) return false;
  return std::all_of(cut.begin(), cut.end(), [&](const PerProbe& end) {
    const bool slack = aligned_ && !free_size_ && end[0] > crop_px;
    return slack || SameWhenAligned(end, SameForAll(crop_px));
  });
}

absl::Status Builder::FinishCut(const std::string& name, Value& value) {
  if (!HasCut(value)) return absl::OkStatus();
  if (!IsWholeCut(value.cut)) {
    return absl::UnimplementedError("is an unfinished crop of one axis");
  }
  const int64_t crop_px = value.cut[kTop][0];
  if (crop_px == 0) return absl::OkStatus();
  Layer layer = NewLayer(name, Op::kCrop, {&value});
  layer.crop_px = static_cast<int>(crop_px);
  ASSIGN_OR_RETURN(value.layer, AppendUnnamed(std::move(layer)));
  value.shared = false;
  for (PerProbe& end : value.cut) {
    for (int64_t& px : end) px -= crop_px;
  }
  return absl::OkStatus();
}

absl::Status Builder::GiveSlack(const Node& node, const Value& other, Value& value) {
  const Sides& wanted = sides_[other.layer];
  Layer pad = NewLayer(node, Op::kPad, {&value});
  pad.pad_mode = PadMode::kReplicate;
  for (pad.factor = 1; pad.factor <= kMaxFactor; ++pad.factor) {
    bool same = true;
    for (size_t i = 0; i < kProbes && same; ++i) {
      const Size size = OutputSize(pad, {static_cast<int>(sides_[value.layer].width[i]),
                                         static_cast<int>(sides_[value.layer].height[i])});
      same = size.width == wanted.width[i] && size.height == wanted.height[i];
    }
    if (!same) continue;
    ASSIGN_OR_RETURN(value.layer, AppendUnnamed(std::move(pad)));
    value.cut = other.cut;
    value.shared = false;
    return absl::OkStatus();
  }
  return absl::UnimplementedError("joins planes that were cut to the image's size with others");
}

absl::StatusOr<Builder::Value*> Builder::Tensor(const Node& node, size_t i) {
  if (!node.Has(i)) return absl::InvalidArgumentError(absl::StrCat("lacks input ", i));
  Value* value = node.inputs[i];
  if (value->form != Form::kComputed) {
    const char* what =
        value->form == Form::kConstant ? " is a constant" : " follows from the image's size";
    return absl::UnimplementedError(absl::StrCat("input ", i, what));
  }
  if (const absl::Status status = FinishCut(node.proto.input(static_cast<int>(i)), *value);
      !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("input ", i, " ", status.message()));
  }
  return value;
}

absl::StatusOr<Builder::Value*> Builder::Planes(const Node& node, size_t i) {
  ASSIGN_OR_RETURN(Value * value, Tensor(node, i));
  if (HasCut(*value)) {
    return absl::UnimplementedError(
        absl::StrCat("input ", i, " was cut to the image's size, which must come last"));
  }
  if (ArePlanes(*value)) return value;
  if (const absl::Status status = Rearrange(node.proto.input(static_cast<int>(i)), *value);
      !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("input ", i, " ", status.message()));
  }
  return value;
}

absl::Status Builder::Charge(int64_t count) {
  folded_ += count;
  if (folded_ <= kMaxOnnxFolded) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("computes more than ", kMaxOnnxFolded,
                                                   " numbers from constants and sizes, the limit"));
}

absl::StatusOr<SizedNumbers> Builder::NumbersOf(const Value& value) {
  if (value.form == Form::kNumbers) {
    for (const Numbers& numbers : *value.numbers) {
      RETURN_IF_ERROR(Charge(static_cast<int64_t>(numbers.values.size())));
    }
    return *value.numbers;
  }
  ASSIGN_OR_RETURN(const int64_t count, ValueCount(*value.constant));
  RETURN_IF_ERROR(Charge(count));
  ASSIGN_OR_RETURN(Numbers numbers, ReadNumbers(*value.constant));
  return SizedNumbers{std::move(numbers)};
}

// A constant, where all sizes have the same.
absl::StatusOr<Builder::Value> Builder::ValueOf(SizedNumbers numbers) {
  for (const Numbers& n : numbers) {
    RETURN_IF_ERROR(Charge(static_cast<int64_t>(n.values.size())));
    if (n.dims != numbers[0].dims) {
      return absl::UnimplementedError("gives as many numbers as the image has pixels");
    }
  }
  const bool same = std::all_of(numbers.begin(), numbers.end(),
                                [&](const Numbers& n) { return n.values == numbers[0].values; });
  if (same) {
    return Value{.form = Form::kConstant,
                 .constant = &own_constants_.emplace_back(ToTensor(numbers[0]))};
  }
  return Value{.form = Form::kNumbers,
               .numbers = std::make_shared<const SizedNumbers>(std::move(numbers))};
}

absl::Status Builder::AddNumbers(Node& node) {
  std::vector<SizedNumbers> inputs;
  size_t sizes = 1;
  for (const Value* input : node.inputs) {
    inputs.emplace_back();
    if (input == nullptr) continue;
    ASSIGN_OR_RETURN(inputs.back(), NumbersOf(*input));
    sizes = std::max(sizes, inputs.back().size());
  }
  const auto outputs = static_cast<size_t>(node.proto.output_size());
  std::vector<SizedNumbers> results(outputs);
  for (size_t size = 0; size < sizes; ++size) {
    std::vector<const Numbers*> of_size;
    for (const SizedNumbers& input : inputs) {
      of_size.push_back(input.empty() ? nullptr : &input[input.size() == 1 ? 0 : size]);
    }
    ASSIGN_OR_RETURN(std::vector<Numbers> computed,
                     Evaluate(node.proto.op_type(), node.attributes, of_size, outputs));
    for (size_t i = 0; i < outputs; ++i) results[i].push_back(std::move(computed[i]));
  }
  for (size_t i = 0; i < outputs; ++i) {
    ASSIGN_OR_RETURN(Value value, ValueOf(std::move(results[i])));
    RETURN_IF_ERROR(SetOutput(node, std::move(value), static_cast<int>(i)));
  }
  return absl::OkStatus();
}

absl::StatusOr<const TensorProto*> Builder::Constant(const Node& node, size_t i) const {
  if (node.HasConstant(i)) return node.inputs[i]->constant;
  const char* instead = !node.Has(i)                             ? " is left out"
                        : node.inputs[i]->form == Form::kNumbers ? " follows from the image's size"
                                                                 : " is computed";
  return absl::UnimplementedError(absl::StrCat("input ", i, instead, ", must be a constant"));
}

absl::StatusOr<std::vector<int64_t>> Builder::IntsOf(Node& node, std::string_view name, size_t i) {
  if (!node.Has(i)) return node.attributes.Ints(name);
  ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, i));
  return ReadInts(*constant);
}

absl::StatusOr<std::vector<PerProbe>> Builder::SidesOf(Node& node, std::string_view name,
                                                       size_t i) {
  std::vector<PerProbe> sides;
  if (!node.Has(i) || node.inputs[i]->form != Form::kNumbers) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> same, IntsOf(node, name, i));
    std::transform(same.begin(), same.end(), std::back_inserter(sides), SameForAll);
    return sides;
  }
  const SizedNumbers& numbers = *node.inputs[i]->numbers;
  sides.resize(numbers[0].values.size());
  for (size_t probe = 0; probe < kProbes; ++probe) {
    for (size_t side = 0; side < sides.size(); ++side) {
      sides[side][probe] = ToInteger(numbers[probe].values[side]);
    }
  }
  return sides;
}

std::optional<std::vector<int64_t>> Builder::PlacesOf(const TensorProto& constant,
                                                      const Value& value) const {
  const int axes = constant.dims_size(), behind = static_cast<int>(value.view.size()) - axes;
  if (behind < 0) return std::nullopt;
  struct Index {
    int64_t count, stride, step;  // of the channel's digit, and from one of its values to the next
  };
  std::vector<Index> indices;
  int64_t step = 1;
  for (int i = axes; i-- > 0;) {
    const int64_t side = constant.dims(i);
    const Axis& axis = value.view[behind + i];
    if (side == 1) continue;
    if (SideOf(axis) != SameForAll(side)) return std::nullopt;
    for (auto digit = axis.rbegin(); digit != axis.rend(); ++digit) {
      if (digit->of != Digit::kChannel) return std::nullopt;
      indices.push_back({digit->count[0], digit->stride, step});
      step *= digit->count[0];
    }
  }
  std::vector<int64_t> places(Channels(value), 0);
  for (size_t channel = 0; channel < places.size(); ++channel) {
    for (const Index& index : indices) {
      places[channel] += static_cast<int64_t>(channel) / index.stride % index.count * index.step;
    }
  }
  return places;
}

absl::StatusOr<std::vector<float>> Builder::ReadPerChannel(const TensorProto& constant,
                                                           const Value& value) const {
  RETURN_IF_ERROR(ValueCount(constant).status());
  const std::optional<std::vector<int64_t>> places = PlacesOf(constant, value);
  if (!places) {
    return absl::UnimplementedError(absl::StrCat("a constant of ", DescribeShape(constant),
                                                 " is not supported, only one number or one for ",
                                                 "each of ", Channels(value), " channels"));
  }
  ASSIGN_OR_RETURN(const std::vector<float> values, ReadFloats(constant));
  std::vector<float> result;
  for (const int64_t place : *places) result.push_back(values[place]);
  return result;
}

}  // namespace upscaled::onnx
