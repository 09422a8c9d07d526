#include "engine/model/architectures/omni_sr.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr int kOmniWindowPx = 8, kOmniHeads = 4;  // where no table of biases tells them
constexpr float kPlaneNormEpsilon = 1e-6f;
constexpr NetworkBuilder::ConvOptions kOmniGelu = {.activation = Activation::kGelu};

// The first or repeated modules of a sequence of a block's layers.
constexpr int kInverted = 0, kWindows = 2, kWindowChannels = 5, kGrids = 8, kGridChannels = 11;
constexpr int kFeedForwards[] = {4, 6, 10, 12};

std::string OmniGroup(int group) { return absl::StrCat("residual_layer.", group, "."); }
std::string OmniBlock(int group, int block) {
  return absl::StrCat(OmniGroup(group), "residual_layer.", block, ".layer.");
}

struct OmniWindows {
  int window_px = kOmniWindowPx;
  int64_t heads = kOmniHeads;
};

// A bottleneck turned inside out, of one depthwise convolution, with squeeze-and-excite.
int AddInvertedBlock(NetworkBuilder& builder, int x, const std::string& name) {
  int y = builder.Conv(x, name + ".fn.0", kOmniGelu);
  if (!builder.ok()) return x;
  y = builder.Conv(y, name + ".fn.2",
                   {.groups = builder.Channels(y), .activation = Activation::kGelu});
  int factors = builder.GlobalAveragePool(y);
  factors = builder.FullyConnected(factors, name + ".fn.4.gate.1", Activation::kSilu);
  factors = builder.FullyConnected(factors, name + ".fn.4.gate.3", Activation::kSigmoid);
  return builder.Add(builder.Conv(builder.Mul(y, factors), name + ".fn.5", {}), x);
}

// The tokens are a window's pixels.
int AddPixelAttention(NetworkBuilder& builder, int x, const std::string& name,
                      const OmniWindows& windows) {
  if (!builder.ok()) return x;
  const int channels = builder.Channels(x);
  const int64_t side = 2 * windows.window_px - 1,
                tokens = int64_t{windows.window_px} * windows.window_px;
  if (!AcceptHeads(builder, name, windows.heads, channels, tokens * tokens)) return x;
  const int normal = builder.LayerNorm(x, name + ".norm", kLayerNormEpsilon);
  Layer qkv = builder.ReadLinear(name + ".fn.to_qkv", channels);
  const std::string table = name + ".fn.rel_pos_bias.weight";
  Layer attention{.op = Op::kWindowAttention,
                  .name = name,
                  .groups = static_cast<int>(windows.heads),
                  .window_x = {windows.window_px, 0},
                  .window_y = {windows.window_px, 0}};
  attention.weights.assign(windows.heads * tokens * tokens, 0.0f);
  if (builder.file().Has(table)) {
    const std::vector<float> biases = builder.Read(table, {side * side, windows.heads});
    if (!builder.ok()) return x;
    attention.weights = ExpandBias(biases, attention.groups, windows.window_px, windows.window_px);
  }
  if (!builder.ok()) return x;
  ScaleQueries(qkv, attention.groups);
  const int attended =
      builder.WindowAttention(builder.Conv(normal, std::move(qkv)), std::move(attention));
  return builder.Add(builder.Linear(attended, name + ".fn.to_out.0"), x);
}

// Among the channels of windows, or of grids: pixels at one place of all squares of `factor`.
int AddOmniChannelAttention(NetworkBuilder& builder, int x, const std::string& name, int window_px,
                            int factor) {
  const std::string temperature = name + ".fn.temperature";
  const int64_t heads = builder.Shape(temperature, 3)[0];
  std::vector<float> temperatures = builder.Read(temperature, {heads, 1, 1});
  if (!builder.ok()) return x;
  if (!AcceptHeads(builder, temperature, heads, builder.Channels(x), /*pairs=*/1)) return x;
  int y = builder.LayerNorm(x, name + ".norm", kPlaneNormEpsilon);
  y = builder.Conv(y, name + ".fn.qkv", {});
  if (!builder.ok()) return x;
  y = builder.Conv(y, name + ".fn.qkv_dwconv", {.groups = builder.Channels(y)});
  y = builder.PartAttention(y, {.op = Op::kPartAttention,
                                .name = name,
                                .groups = static_cast<int>(heads),
                                .window_x = {window_px, 0},
                                .window_y = {window_px, 0},
                                .factor = factor,
                                .weights = std::move(temperatures)});
  return builder.Add(builder.Conv(y, name + ".fn.project_out", {}), x);
}

// Half of a depthwise convolution's channels, times the curve of the other half.
int AddGatedForward(NetworkBuilder& builder, int x, const std::string& name) {
  int y = builder.LayerNorm(x, name + ".norm", kPlaneNormEpsilon);
  y = builder.Conv(y, name + ".fn.project_in", {});
  if (!builder.ok()) return x;
  y = builder.Conv(y, name + ".fn.dwconv", {.groups = builder.Channels(y)});
  const int half = builder.Channels(y) / 2;
  const int gate = builder.Activate(builder.Slice(y, 0, half), Activation::kGelu);
  y = builder.Mul(gate, builder.Slice(y, half, half));
  return builder.Add(builder.Conv(y, name + ".fn.project_out", {}), x);
}

int AddOmniBlock(NetworkBuilder& builder, int x, const std::string& block,
                 const OmniWindows& windows) {
  const auto layer = [&block](int index) { return absl::StrCat(block, index); };
  x = AddInvertedBlock(builder, x, layer(kInverted));
  x = AddPixelAttention(builder, x, layer(kWindows), windows);
  x = AddGatedForward(builder, x, layer(kFeedForwards[0]));
  x = AddOmniChannelAttention(builder, x, layer(kWindowChannels), windows.window_px, /*factor=*/1);
  x = AddGatedForward(builder, x, layer(kFeedForwards[1]));
  x = builder.Rearrange(x, Op::kGridToWindows, windows.window_px);
  x = AddPixelAttention(builder, x, layer(kGrids), windows);
  x = builder.Rearrange(x, Op::kWindowsToGrid, windows.window_px);
  x = AddGatedForward(builder, x, layer(kFeedForwards[2]));
  x = AddOmniChannelAttention(builder, x, layer(kGridChannels), /*window_px=*/1,
                              /*factor=*/windows.window_px);
  return AddGatedForward(builder, x, layer(kFeedForwards[3]));
}

// Enhanced spatial attention (Liu et al., "Residual Feature Aggregation Network for Image
// Super-Resolution", 2020): each pixel's channels get factors, by the largest values around.
int AddSpatialFactors(NetworkBuilder& builder, int x, const std::string& name) {
  const int narrow = builder.Conv(x, name + "conv1", {});
  const int halved = builder.Conv(narrow, name + "conv2", {.stride_px = 2, .padding_px = 0});
  const int around =
      builder.Conv(builder.MaxPool(halved, /*kernel_px=*/7, /*stride_px=*/3), name + "conv3", {});
  const int near = builder.Conv(narrow, name + "conv_f", {});
  const int factors = builder.Conv(builder.AddResized(near, around), name + "conv4",
                                   {.activation = Activation::kSigmoid});
  return builder.Mul(x, factors);
}

int AddOmniGroup(NetworkBuilder& builder, int x, int group, const OmniWindows& windows) {
  int y = x, block = 0;
  for (; builder.ok() && builder.file().Has(OmniBlock(group, block) + "0.fn.0.weight"); ++block) {
    y = AddOmniBlock(builder, y, OmniBlock(group, block), windows);
  }
  y = builder.Conv(y, absl::StrCat(OmniGroup(group), "residual_layer.", block), {});
  return AddSpatialFactors(builder, builder.Add(y, x), OmniGroup(group) + "esa.");
}

// By the first table of biases, if there is one.
OmniWindows WindowsOf(NetworkBuilder& builder) {
  const std::string table = OmniBlock(0, 0) + "2.fn.rel_pos_bias.weight";
  if (!builder.file().Has(table)) return {};
  const std::vector<int64_t> shape = builder.Shape(table, 2);
  return {SideOfTable(builder, table), shape[1]};
}

}  // namespace

bool RecogniseOmniSr(const TensorFile& file) {
  return file.Has("input.weight") && file.Has("up.0.weight") &&
         file.Has(OmniBlock(0, 0) + "0.fn.0.weight") && file.Has(OmniGroup(0) + "esa.conv1.weight");
}

absl::StatusOr<int> OmniSrScale(const TensorFile& file) {
  const TensorInfo* weight = file.Find("up.0.weight");
  return ScaleOfShuffle(weight == nullptr || weight->shape.empty() ? 0 : weight->shape[0]);
}

void BuildOmniSr(NetworkBuilder& builder) {
  const absl::StatusOr<int> scale = OmniSrScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  const OmniWindows windows = WindowsOf(builder);
  if (!builder.ok()) return;
  // Left in some published files by a counter of operations.
  for (const auto& [name, info] : builder.file().tensors()) {
    if (absl::EndsWith(name, "total_ops") || absl::EndsWith(name, "total_params")) {
      builder.Ignore(name);
    }
  }
  const int padded = builder.Pad(builder.Input(), 0, PadMode::kConstant, windows.window_px);
  const int first = builder.Conv(padded, "input", {});
  int x = first;
  for (int group = 0; builder.ok() && builder.file().Has(OmniBlock(group, 0) + "0.fn.0.weight");
       ++group) {
    x = AddOmniGroup(builder, x, group, windows);
  }
  x = builder.Add(builder.Conv(x, "output", {}), first);
  builder.PixelShuffle(builder.Conv(x, "up.0", {}), *scale);
}

}  // namespace upscaled
