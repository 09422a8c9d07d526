// Attention in windows, as attention.h finds it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/border.h"
#include "engine/model/fuse.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/shapes.h"

namespace upscaled::onnx {
namespace {

// Rows and then columns, each from `least` on and below `end`.
absl::Status CheckPair(const char* name, const std::vector<int64_t>& pair, int64_t least,
                       std::array<int64_t, 2> end) {
  const bool sound = pair.size() == 2 && pair[0] >= least && pair[0] < end[0] && pair[1] >= least &&
                     pair[1] < end[1];
  if (sound) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must be two numbers from ", least,
                                                 " on, below ", end[0], " and ", end[1]));
}

WindowAxis AxisOf(int64_t window_px, int64_t rolled_px) {
  return {static_cast<int>(window_px),
          static_cast<int>(rolled_px == 0 ? 0 : window_px - rolled_px)};
}

// The multiple for an image's sides, for every attention to have this many whole windows along each
// axis.
int64_t WindowMultiple(const Network& network, int64_t windows) {
  const std::vector<double> densities = LayerDensities(network);
  int64_t multiple = 1;
  for (size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (layer.op != Op::kWindowAttention) continue;
    const auto step_px = std::max<int64_t>(std::lround(1 / std::sqrt(densities[i])), 1);
    for (const WindowAxis& axis : {layer.window_x, layer.window_y}) {
      multiple = std::lcm(multiple, windows * axis.window_px * step_px);
      if (multiple > kMaxPeriodPx) return multiple;
    }
  }
  return multiple;
}

}  // namespace

absl::Status Builder::AddWindowAttention(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  if (!AreChannelsLast(*input)) {
    return absl::UnimplementedError("is only supported of planes whose channels are last");
  }
  Value value = *input;
  ASSIGN_OR_RETURN(const int64_t heads, node.attributes.Int("heads", 0));
  ASSIGN_OR_RETURN(const float scale, node.attributes.Float("scale", 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> window, node.attributes.Ints("window"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> roll, node.attributes.Ints("roll"));
  ASSIGN_OR_RETURN(const int64_t rolls_alone, node.attributes.Int("rolls_alone", 0));
  // Torchvision rolls nothing along an axis of one window, so images are given two.
  if (rolls_alone == 0) least_windows_ = 2;
  RETURN_IF_ERROR(CheckPair("window", window, 1, {kMaxWindowPx + 1, kMaxWindowPx + 1}));
  RETURN_IF_ERROR(CheckPair("roll", roll, 0, {window[0], window[1]}));
  const int channels = Channels(value);
  if (heads < 1 || heads > channels || channels % (3 * heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot share ", channels,
                                                   " channels among the queries, keys and values "
                                                   "of ",
                                                   heads, " heads"));
  }
  ASSIGN_OR_RETURN(const TensorProto* bias, Constant(node, 1));
  ASSIGN_OR_RETURN(const std::vector<float> sharpness, node.attributes.Floats("sharpness"));
  if (!sharpness.empty()) {
    ASSIGN_OR_RETURN(value.layer, AppendDirections(node, value, sharpness));
    value.shared = false;
  }
  Layer scaled = NewLayer(node, Op::kAffine, {&value});
  scaled.weights.assign(channels, 1.0f);
  std::fill_n(scaled.weights.begin(), channels / 3, scale);
  scaled.bias.assign(channels, 0.0f);
  if (value.shared || !FuseAffine(scaled, network_.layers[value.layer])) {
    ASSIGN_OR_RETURN(value.layer, AppendUnnamed(std::move(scaled)));
  }
  Layer attention = NewLayer(node, Op::kWindowAttention, {&value});
  attention.out_channels = channels / 3;
  attention.groups = static_cast<int>(heads);
  attention.window_y = AxisOf(window[0], roll[0]);
  attention.window_x = AxisOf(window[1], roll[1]);
  ASSIGN_OR_RETURN(attention.weights, ReadFloats(*bias));
  const int64_t pixels = window[0] * window[1];
  if (std::ssize(attention.weights) != heads * pixels * pixels) {
    return absl::InvalidArgumentError(absl::StrCat("has a bias of ", DescribeShape(*bias), " for ",
                                                   heads, " heads and ", pixels, " pixels"));
  }
  ASSIGN_OR_RETURN(const int layer, AppendUnnamed(std::move(attention)));
  return SetOutput(node, {.layer = layer, .view = ChannelsLast(PlanesOf(layer).view)});
}

absl::StatusOr<int> Builder::AppendDirections(const Node& node, const Value& value,
                                              const std::vector<float>& sharpness) {
  constexpr float kLengthEpsilon = 1e-24f;  // a square
  const int channels = Channels(value) / 3;
  const auto heads = static_cast<int>(sharpness.size());
  if (channels % heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", heads, " factors for queries of ", channels, " channels"));
  }
  Layer pairs = NewLayer(node, Op::kSlice, {&value}), values = pairs;
  pairs.out_channels = 2 * channels;
  values.out_channels = channels;
  values.first_channel = 2 * channels;
  Value direction = value, rest = value;
  ASSIGN_OR_RETURN(direction.layer, AppendUnnamed(std::move(pairs)));
  ASSIGN_OR_RETURN(rest.layer, AppendUnnamed(std::move(values)));
  Layer norm = NewLayer(node, Op::kPixelNorm, {&direction});
  norm.groups = 2 * heads;
  norm.centred = false;
  norm.epsilon = kLengthEpsilon;
  // A mean square of 1 is a length of its root of the channels.
  const auto length = static_cast<float>(std::sqrt(static_cast<double>(channels / heads)));
  for (int c = 0; c < 2 * channels; ++c) {
    norm.weights.push_back((c < channels ? sharpness[c * heads / channels] : 1.0f) / length);
  }
  norm.bias.assign(norm.weights.size(), 0.0f);
  ASSIGN_OR_RETURN(direction.layer, AppendUnnamed(std::move(norm)));
  Layer both = NewLayer(node, Op::kConcat, {&direction, &rest});
  both.out_channels = 3 * channels;
  return AppendUnnamed(std::move(both));
}

absl::Status Builder::PadToWindows() {
  const int64_t multiple = WindowMultiple(network_, least_windows_);
  if (multiple == 1) return absl::OkStatus();
  if (multiple > kMaxPeriodPx) {
    return absl::UnimplementedError(absl::StrCat("its windows need sides that are multiples of ",
                                                 multiple, " pixels, the limit is ", kMaxPeriodPx));
  }
  Layer pad{.op = Op::kPad,
            .name = "whole windows",
            .inputs = {-1},
            .out_channels = network_.layers[0].out_channels,
            .in_channels = network_.layers[0].out_channels,
            .padding_px = network_.pad_px,
            .factor = static_cast<int>(multiple),
            .pad_mode = least_windows_ == 1 ? PadMode::kReflect : PadMode::kReplicate};
  network_.layers.insert(network_.layers.begin() + 1, std::move(pad));
  for (Layer& layer : network_.layers) {
    for (int& input : layer.inputs) ++input;
  }
  network_.pad_px = 0;
  return InferBorder(network_);
}

}  // namespace upscaled::onnx
