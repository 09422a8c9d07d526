#include "engine/model/architectures/swin2sr.h"

#include <algorithm>
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

constexpr double kMaxLogitScale = 100;
constexpr float kLengthEpsilon = 1e-24f;           // of queries and keys, a square
constexpr double kBiasRange = 16;                  // the biases lie between 0 and this
constexpr int64_t kMaxBiasProducts = 100'000'000;  // published: 0.7 million

std::string Swin2SrBlock(int group, int block) {
  return absl::StrCat(SwinGroup(group), "residual_group.blocks.", block, ".");
}

std::string CoordinatesOf(const std::string& attn) { return attn + ".relative_coords_table"; }

// A side of the windows, told from their table of distances; 0 after an error.
int Swin2SrWindow(NetworkBuilder& builder, const std::string& attn) {
  const std::vector<int64_t> shape = builder.Shape(CoordinatesOf(attn), 4);
  if (!builder.ok()) return 0;
  const int64_t side = (shape[1] + 1) / 2;
  const bool sound = side >= 1 && side <= kMaxWindowPx &&
                     shape == std::vector<int64_t>{1, 2 * side - 1, 2 * side - 1, 2};
  if (sound) return static_cast<int>(side);
  builder.Fail(absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quote(CoordinatesOf(attn)),
                   " must have the distances within windows of 1..", kMaxWindowPx, " pixels")));
  return 0;
}

// The table of biases: a perceptron on distances on a logarithmic scale. One row for each distance,
// a column for each head.
std::vector<float> Swin2SrBiases(NetworkBuilder& builder, const std::string& attn, int window_px,
                                 int heads) {
  const int64_t side = 2 * window_px - 1, rows = side * side;
  const int64_t hidden = builder.Shape(attn + ".cpb_mlp.0.weight", 2)[0];
  if (builder.ok() && hidden * heads > kMaxBiasProducts / rows) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        Quote(attn + ".cpb_mlp"), " takes ", hidden, " x ", heads, " products for each of ", rows,
        " distances, the limit is ", kMaxBiasProducts, " in all")));
  }
  if (!builder.ok()) return {};
  const std::vector<float> places = builder.Read(CoordinatesOf(attn), {1, side, side, 2});
  const std::vector<float> first = builder.Read(attn + ".cpb_mlp.0.weight", {hidden, 2});
  const std::vector<float> offset = builder.Read(attn + ".cpb_mlp.0.bias", {hidden});
  const std::vector<float> second = builder.Read(attn + ".cpb_mlp.2.weight", {heads, hidden});
  if (!builder.ok()) return {};
  std::vector<float> table;
  std::vector<double> values(static_cast<size_t>(hidden));
  for (int64_t row = 0; row < rows; ++row) {
    const float* place = &places[2 * row];
    for (int64_t i = 0; i < hidden; ++i) {
      const double value = double{first[2 * i]} * place[0] + double{first[2 * i + 1]} * place[1];
      values[i] = std::max(value + offset[i], 0.0);
    }
    for (int head = 0; head < heads; ++head) {
      double sum = 0;
      for (int64_t i = 0; i < hidden; ++i) sum += values[i] * second[head * hidden + i];
      table.push_back(static_cast<float>(kBiasRange / (1 + std::exp(-sum))));
    }
  }
  return table;
}

// Queries and keys of length 1, times how sharp a head looks; the values as they are.
int NormaliseQueriesAndKeys(NetworkBuilder& builder, int qkv,
                            const std::vector<float>& logit_scales) {
  const int channels = builder.Channels(qkv) / 3, heads = static_cast<int>(logit_scales.size());
  const double length = std::sqrt(static_cast<double>(channels / heads));
  Layer norm{
      .op = Op::kPixelNorm, .groups = 2 * heads, .centred = false, .epsilon = kLengthEpsilon};
  for (int c = 0; c < 2 * channels; ++c) {
    const double scale =
        c < channels
            ? std::min(std::exp(double{logit_scales[c * heads / channels]}), kMaxLogitScale)
            : 1.0;
    norm.weights.push_back(static_cast<float>(scale / length));
  }
  norm.bias.assign(norm.weights.size(), 0.0f);
  const int directions = builder.PixelNorm(builder.Slice(qkv, 0, 2 * channels), std::move(norm));
  return builder.Concat({directions, builder.Slice(qkv, 2 * channels, channels)});
}

// The biases of queries and values are tensors of their own; keys have none.
Layer ReadSwin2SrQkv(NetworkBuilder& builder, const std::string& attn, int channels) {
  Layer qkv = builder.ReadLinear(attn + ".qkv", channels);
  if (builder.ok() && std::ssize(qkv.bias) != 3 * channels) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        Quote(attn + ".qkv"), " gives ", qkv.bias.size(), " channels, must give ", 3 * channels)));
  }
  if (!builder.file().Has(attn + ".q_bias")) return qkv;
  const std::vector<float> queries = builder.Read(attn + ".q_bias", {channels});
  const std::vector<float> values = builder.Read(attn + ".v_bias", {channels});
  if (!builder.ok()) return qkv;
  std::copy(queries.begin(), queries.end(), qkv.bias.begin());
  std::copy(values.begin(), values.end(), qkv.bias.end() - channels);
  return qkv;
}

int AttendByCosine(NetworkBuilder& builder, int x, const std::string& attn, int window_px,
                   int rolled_px) {
  const int64_t heads = builder.Shape(attn + ".logit_scale", 3)[0];
  if (!builder.ok()) return 0;
  const int channels = builder.Channels(x);
  const int64_t tokens = int64_t{window_px} * window_px;
  if (!AcceptHeads(builder, attn + ".logit_scale", heads, channels, tokens * tokens)) return 0;
  const std::vector<float> scales = builder.Read(attn + ".logit_scale", {heads, 1, 1});
  Layer qkv = ReadSwin2SrQkv(builder, attn, channels);
  const std::vector<float> table = Swin2SrBiases(builder, attn, window_px, static_cast<int>(heads));
  if (!builder.ok()) return 0;
  const WindowAxis windows = RolledWindows(window_px, rolled_px);
  Layer attention{.op = Op::kWindowAttention,
                  .name = attn,
                  .groups = static_cast<int>(heads),
                  .window_x = windows,
                  .window_y = windows};
  attention.weights = ExpandBias(table, attention.groups, window_px, window_px);
  x = NormaliseQueriesAndKeys(builder, builder.Conv(x, std::move(qkv)), scales);
  return builder.Linear(builder.WindowAttention(x, std::move(attention)), attn + ".proj");
}

// A block normalises its parts' results, before they are added.
int AddSwin2SrBlock(NetworkBuilder& builder, int x, const std::string& block, int window_px,
                    int rolled_px) {
  builder.Ignore(block + "attn_mask");
  builder.Ignore(block + "attn.relative_position_index");
  int y = AttendByCosine(builder, x, block + "attn", window_px, rolled_px);
  x = builder.Add(builder.LayerNorm(y, block + "norm1", kLayerNormEpsilon), x);
  y = Mlp(builder, x, block + "mlp.fc1", block + "mlp.fc2");
  return builder.Add(builder.LayerNorm(y, block + "norm2", kLayerNormEpsilon), x);
}

int AddSwin2SrGroup(NetworkBuilder& builder, int x, int group, int window_px) {
  int y = x;
  for (int i = 0; builder.ok() && builder.file().Has(Swin2SrBlock(group, i) + "norm1.weight");
       ++i) {
    y = AddSwin2SrBlock(builder, y, Swin2SrBlock(group, i), window_px,
                        i % 2 == 0 ? 0 : window_px / 2);
  }
  y = AddConvOrThree(builder, y, SwinGroup(group) + "conv");
  return builder.Add(builder.Conv(y, SwinGroup(group) + "patch_embed.proj", {}), x);
}

}  // namespace

bool RecogniseSwin2Sr(const TensorFile& file) {
  return HasSwinFrame(file) && file.Has(Swin2SrBlock(0, 0) + "attn.logit_scale") &&
         file.Has(Swin2SrBlock(0, 0) + "attn.cpb_mlp.0.weight");
}

absl::StatusOr<int> Swin2SrScale(const TensorFile& file) { return SwinFrameScale(file); }

void BuildSwin2Sr(NetworkBuilder& builder) {
  const int window_px = Swin2SrWindow(builder, Swin2SrBlock(0, 0) + "attn");
  if (!builder.ok()) return;
  BuildSwinFrame(
      builder,
      {.first_projection = "patch_embed.proj",
       .align_px = window_px,
       .add_group = [window_px](NetworkBuilder& to, int x,
                                int group) { return AddSwin2SrGroup(to, x, group, window_px); },
       .group_mark = [](int group) { return Swin2SrBlock(group, 0) + "norm1.weight"; }});
}

}  // namespace upscaled
