#include "engine/model/architectures/hat.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/architectures/swin_network.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr float kChannelFactor = 0.01f;  // of the weighted channels that a block adds
constexpr NetworkBuilder::ConvOptions kGelu = {.activation = Activation::kGelu};

std::string HatGroup(int group) { return absl::StrCat(SwinGroup(group), "residual_group."); }
std::string HatBlock(int group, int block) {
  return absl::StrCat(HatGroup(group), "blocks.", block, ".");
}

// Two convolutions. The means of their channels give each channel a weight.
int AddChannelBlock(NetworkBuilder& builder, int x, const std::string& name) {
  x = builder.Conv(builder.Conv(x, name + ".0", kGelu), name + ".2", {});
  int factors = builder.GlobalAveragePool(x);
  factors = builder.FullyConnected(factors, name + ".3.attention.1", Activation::kRelu);
  factors = builder.FullyConnected(factors, name + ".3.attention.3", Activation::kSigmoid);
  return builder.Mul(x, builder.Affine(factors, {kChannelFactor}, {0.0f}));
}

int AddHybridBlock(NetworkBuilder& builder, int x, const std::string& block, int window_px,
                   int rolled_px) {
  const int normal = builder.LayerNorm(x, block + "norm1", kLayerNormEpsilon);
  const int channels = AddChannelBlock(builder, normal, block + "conv_block.cab");
  const int attended = AttendInWindows(builder, normal, block + "attn", window_px, rolled_px);
  x = builder.Add(builder.Add(attended, x), channels);
  const int y = builder.LayerNorm(x, block + "norm2", kLayerNormEpsilon);
  return builder.Add(Mlp(builder, y, block + "mlp.fc1", block + "mlp.fc2"), x);
}

// The bias of overlapping windows. The published index begins below zero, where PyTorch counts from
// the table's end.
std::vector<float> ExpandOverlap(const std::vector<float>& table, int heads, int window_px,
                                 int keys_px) {
  const int row = window_px + keys_px - 1, shift = window_px - keys_px + 1;
  std::vector<float> bias;
  bias.reserve(size_t{1} * heads * window_px * window_px * keys_px * keys_px);
  for (int head = 0; head < heads; ++head) {
    for (int query = 0; query < window_px * window_px; ++query) {
      for (int key = 0; key < keys_px * keys_px; ++key) {
        const int y = key / keys_px - query / window_px + shift;
        const int x = key % keys_px - query % window_px + shift;
        const int index = (y * row + x + row * row) % (row * row);
        bias.push_back(table[size_t{1} * index * heads + head]);
      }
    }
  }
  return bias;
}

// The keys' side of a group's last block; 0 after an error.
int KeysSide(NetworkBuilder& builder, const std::string& table, int window_px) {
  const int64_t rows = builder.Shape(table, 2)[0];
  if (!builder.ok()) return 0;
  const int64_t side = std::lround(std::sqrt(static_cast<double>(rows)));
  const int64_t keys_px = side - window_px + 1, overlap_px = (keys_px - window_px) / 2;
  const bool sound = side * side == rows && keys_px >= window_px && overlap_px <= kMaxWindowPx &&
                     (keys_px - window_px) % 2 == 0;
  if (sound) return static_cast<int>(keys_px);
  builder.Fail(absl::InvalidArgumentError(absl::StrCat(
      "tensor ", Quote(table), " has ", rows, " rows, must have (w + k - 1)^2 for windows of ",
      window_px, " pixels and keys of k pixels around them")));
  return 0;
}

int AddOverlap(NetworkBuilder& builder, int x, const std::string& block, int window_px) {
  const std::string table = block + "relative_position_bias_table";
  const int keys_px = KeysSide(builder, table, window_px);
  const int64_t rows = builder.Shape(table, 2)[0], heads = builder.Shape(table, 2)[1];
  if (!builder.ok()) return x;
  const int channels = builder.Channels(x);
  const int64_t pairs = int64_t{window_px} * window_px * keys_px * keys_px;
  if (!AcceptHeads(builder, table, heads, channels, pairs)) return x;
  int y = builder.LayerNorm(x, block + "norm1", kLayerNormEpsilon);
  Layer qkv = builder.ReadLinear(block + "qkv", channels);
  const std::vector<float> biases = builder.Read(table, {rows, heads});
  if (!builder.ok()) return x;
  ScaleQueries(qkv, static_cast<int>(heads));
  Layer attention{.op = Op::kWindowAttention,
                  .name = block + "qkv",
                  .groups = static_cast<int>(heads),
                  .window_x = {window_px, 0},
                  .window_y = {window_px, 0},
                  .overlap_px = (keys_px - window_px) / 2};
  attention.weights = ExpandOverlap(biases, attention.groups, window_px, keys_px);
  y = builder.WindowAttention(builder.Conv(y, std::move(qkv)), std::move(attention));
  x = builder.Add(builder.Linear(y, block + "proj"), x);
  y = builder.LayerNorm(x, block + "norm2", kLayerNormEpsilon);
  return builder.Add(Mlp(builder, y, block + "mlp.fc1", block + "mlp.fc2"), x);
}

int AddHatGroup(NetworkBuilder& builder, int x, int group, int window_px) {
  int y = x;
  for (int i = 0; builder.ok() && builder.file().Has(HatBlock(group, i) + "norm1.weight"); ++i) {
    y = AddHybridBlock(builder, y, HatBlock(group, i), window_px, i % 2 == 0 ? 0 : window_px / 2);
  }
  y = AddOverlap(builder, y, HatGroup(group) + "overlap_attn.", window_px);
  return builder.Add(builder.Conv(y, SwinGroup(group) + "conv", {}), x);
}

}  // namespace

bool RecogniseHat(const TensorFile& file) {
  return HasSwinFrame(file) && file.Has(HatBlock(0, 0) + "attn.qkv.weight") &&
         file.Has(HatBlock(0, 0) + "conv_block.cab.0.weight") &&
         file.Has(HatGroup(0) + "overlap_attn.qkv.weight");
}

absl::StatusOr<int> HatScale(const TensorFile& file) { return SwinFrameScale(file); }

void BuildHat(NetworkBuilder& builder) {
  builder.Ignore("relative_position_index_");
  const int window_px = WindowSide(builder, HatBlock(0, 0) + "attn");
  if (!builder.ok()) return;
  BuildSwinFrame(
      builder,
      {.align_px = window_px,
       .add_group = [window_px](NetworkBuilder& to, int x,
                                int group) { return AddHatGroup(to, x, group, window_px); },
       .group_mark = [](int group) { return HatBlock(group, 0) + "norm1.weight"; }});
}

}  // namespace upscaled
