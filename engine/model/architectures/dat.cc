#include "engine/model/architectures/dat.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/batch_norm.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/architectures/swin_network.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr int kMaxPositionWidth = 64;  // of the perceptron on positions; published are up to 11
constexpr int kBranches = 2;  // of the channels: rectangles that lie, and rectangles that stand

std::string DatBlock(int group, int block) {
  return absl::StrCat(SwinGroup(group), "blocks.", block, ".");
}

// Some of a linear layer's results: `count` from `first` on.
void AppendResults(const Layer& linear, size_t first, size_t count, Layer& to) {
  const size_t row = linear.weights.size() / linear.bias.size();
  const auto append = [](const std::vector<float>& from, size_t begin, size_t end,
                         std::vector<float>& values) {
    values.insert(values.end(), from.begin() + static_cast<ptrdiff_t>(begin),
                  from.begin() + static_cast<ptrdiff_t>(end));
  };
  append(linear.weights, first * row, (first + count) * row, to.weights);
  append(linear.bias, first, first + count, to.bias);
}

// A perceptron on the distances of two pixels, computed once.
class PositionBias {
 public:
  // Reads the tensors below `name`: the distances, and the layers in `name`pos.
  PositionBias(NetworkBuilder& builder, const std::string& name) : builder_(builder) {
    const std::string distances = name + "rpe_biases";
    const int64_t rows = builder.Shape(distances, 2)[0];
    std::vector<float> values = builder.Read(distances, {rows, 2});
    builder.Ignore(name + "relative_position_index");
    if (!builder.ok() || rows < 1) return;
    // The first is the one of the last pixel from the first.
    height_px_ = SideOf(values[0]);
    width_px_ = SideOf(values[1]);
    const bool sound = width_px_ > 0 && height_px_ > 0 &&
                       rows == int64_t{2 * width_px_ - 1} * (2 * height_px_ - 1);
    if (!sound) {
      builder.Fail(absl::InvalidArgumentError(absl::StrCat(
          "tensor ", Quote(distances), " has ", rows, " distances from ", values[0], ", ",
          values[1], " on, must have those of windows of 1..", kMaxWindowPx, " pixels")));
      return;
    }
    values = Linear(values, 2, name + "pos.pos_proj");
    for (const char* layer : {"pos.pos1", "pos.pos2", "pos.pos3"}) {
      Normalise(values, absl::StrCat(name, layer, ".0"));
      values = Linear(values, width_, absl::StrCat(name, layer, ".2"));
    }
    table_ = std::move(values);
  }

  int width_px() const { return width_px_; }
  int height_px() const { return height_px_; }
  int heads() const { return width_; }
  std::vector<float> Expand() const { return ExpandBias(table_, width_, width_px_, height_px_); }

 private:
  // Returns the side of windows with pixels this far from each other; 0 if no windows have it.
  static int SideOf(float first_distance) {
    const bool sound = first_distance <= 0 && first_distance > -kMaxWindowPx;
    return sound ? 1 - static_cast<int>(first_distance) : 0;
  }

  // Sets width_ to the values of a result's row.
  std::vector<float> Linear(const std::vector<float>& rows, int width, const std::string& name) {
    const Layer layer = builder_.ReadLinear(name, width);
    std::vector<float> results;
    if (!builder_.ok()) return results;
    width_ = static_cast<int>(layer.bias.size());
    if (width_ > kMaxPositionWidth) {
      builder_.Fail(absl::InvalidArgumentError(absl::StrCat(
          Quote(name), " gives ", width_, " values, the limit is ", kMaxPositionWidth)));
      return results;
    }
    for (size_t row = 0; row < rows.size(); row += width) {
      for (int out = 0; out < width_; ++out) {
        double sum = layer.bias[out];
        for (int i = 0; i < width; ++i) {
          sum += double{rows[row + i]} * layer.weights[size_t{1} * out * width + i];
        }
        results.push_back(static_cast<float>(sum));
      }
    }
    return results;
  }

  // LayerNorm and ReLU.
  void Normalise(std::vector<float>& rows, const std::string& name) {
    const std::vector<float> factor = builder_.Read(name + ".weight", {width_}),
                             offset = builder_.Read(name + ".bias", {width_});
    if (!builder_.ok()) return;
    for (size_t row = 0; row < rows.size(); row += width_) {
      double mean = 0, square = 0;
      for (int i = 0; i < width_; ++i) mean += rows[row + i] / width_;
      for (int i = 0; i < width_; ++i) square += std::pow(rows[row + i] - mean, 2) / width_;
      const double deviation = std::sqrt(square + kLayerNormEpsilon);
      for (int i = 0; i < width_; ++i) {
        const double value = (rows[row + i] - mean) / deviation * factor[i] + offset[i];
        rows[row + i] = static_cast<float>(std::max(value, 0.0));
      }
    }
  }

  NetworkBuilder& builder_;
  int width_ = 0;  // values of a row; in the end the heads
  int width_px_ = 0, height_px_ = 0;
  std::vector<float> table_;
};

// A depthwise convolution of the values, with its curve.
int ConvolveValues(NetworkBuilder& builder, int values, const std::string& attn) {
  if (!builder.ok()) return values;
  const int x = builder.Conv(values, attn + "dwconv.0", {.groups = builder.Channels(values)});
  return builder.Activate(AddBatchNorm(builder, x, attn + "dwconv.1"), Activation::kGelu);
}

// One factor for each channel, of the means over the image.
int ChannelFactors(NetworkBuilder& builder, int x, const std::string& attn) {
  const std::string name = attn + "channel_interaction.";
  x = builder.FullyConnected(builder.GlobalAveragePool(x), name + "1", Activation::kNone);
  x = builder.Activate(AddBatchNorm(builder, x, name + "2"), Activation::kGelu);
  return builder.FullyConnected(x, name + "4", Activation::kSigmoid);
}

// One factor for each pixel, for `channels` channels.
int PixelFactors(NetworkBuilder& builder, int x, const std::string& attn, int channels) {
  const std::string name = attn + "spatial_interaction.";
  x = builder.Conv(x, name + "0", {});
  x = builder.Activate(AddBatchNorm(builder, x, name + "1"), Activation::kGelu);
  if (!builder.ok()) return x;
  const std::vector<float> row = builder.Read(name + "3.weight", {1, builder.Channels(x), 1, 1}),
                           offset = builder.Read(name + "3.bias", {1});
  if (!builder.ok()) return x;
  Layer conv{.name = name + "3", .activation = Activation::kSigmoid};
  for (int c = 0; c < channels; ++c) {
    conv.weights.insert(conv.weights.end(), row.begin(), row.end());
    conv.bias.push_back(offset[0]);
  }
  return builder.Conv(x, std::move(conv));
}

// The attention of one branch. Appends its values' layer to `values`.
int AttendBranch(NetworkBuilder& builder, int x, const Layer& qkv, const std::string& attn,
                 int branch, bool shifted, std::vector<int>& values) {
  const std::string name = absl::StrCat(attn, "attns.", branch, ".");
  const PositionBias bias(builder, name);
  if (!builder.ok()) return x;
  const int channels = builder.Channels(x), own = channels / kBranches, heads = bias.heads();
  const int64_t tokens = int64_t{bias.width_px()} * bias.height_px();
  if (!AcceptHeads(builder, name, heads, own, tokens * tokens)) return x;
  Layer own_qkv{.name = absl::StrCat(attn, "qkv.", branch)};
  for (int third = 0; third < 3; ++third) {
    AppendResults(qkv, size_t{1} * third * channels + size_t{1} * branch * own, own, own_qkv);
  }
  ScaleQueries(own_qkv, heads);
  const int projected = builder.Conv(x, std::move(own_qkv));
  values.push_back(builder.Slice(projected, 2 * own, own));
  const int width_px = bias.width_px(), height_px = bias.height_px();
  // Queries, keys and values are padded with zeros up to multiples of the longer side.
  Layer attention{.op = Op::kWindowAttention,
                  .name = name + "pos",
                  .groups = heads,
                  .window_x = RolledWindows(width_px, shifted ? width_px / 2 : 0),
                  .window_y = RolledWindows(height_px, shifted ? height_px / 2 : 0),
                  .factor = std::max(width_px, height_px)};
  attention.weights = bias.Expand();
  return builder.WindowAttention(projected, std::move(attention));
}

int AttendPixels(NetworkBuilder& builder, int x, const std::string& attn, bool shifted) {
  builder.Ignore(attn + "attn_mask_");
  if (!builder.ok()) return x;
  const int channels = builder.Channels(x);
  const Layer qkv = builder.ReadLinear(attn + "qkv", channels);
  if (!builder.ok()) return x;
  if (channels % kBranches != 0 || qkv.bias.size() != size_t{3} * channels) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        Quote(attn + "qkv"), " gives ", qkv.bias.size(), " values of ", channels, " channels")));
    return x;
  }
  std::vector<int> attended, values;
  for (int branch = 0; branch < kBranches; ++branch) {
    attended.push_back(AttendBranch(builder, x, qkv, attn, branch, shifted, values));
  }
  const int joined = builder.Concat(attended);
  const int convolved = ConvolveValues(builder, builder.Concat(values), attn);
  const int factors = ChannelFactors(builder, convolved, attn);
  const int weighed = builder.Mul(convolved, PixelFactors(builder, joined, attn, channels));
  return builder.Linear(builder.Add(builder.Mul(joined, factors), weighed), attn + "proj");
}

int AttendChannels(NetworkBuilder& builder, int x, const std::string& attn) {
  const int64_t heads = builder.Shape(attn + "temperature", 3)[0];
  std::vector<float> temperatures = builder.Read(attn + "temperature", {heads, 1, 1});
  if (!builder.ok()) return x;
  const int channels = builder.Channels(x);
  if (!AcceptHeads(builder, attn + "temperature", heads, channels, /*pairs=*/1)) return x;
  const int qkv = builder.Linear(x, attn + "qkv");
  const int attended = builder.ChannelAttention(qkv, std::move(temperatures));
  const int convolved = ConvolveValues(builder, builder.Slice(qkv, 2 * channels, channels), attn);
  const int factors = ChannelFactors(builder, attended, attn);
  const int weighed = builder.Mul(attended, PixelFactors(builder, convolved, attn, channels));
  return builder.Linear(builder.Add(builder.Mul(convolved, factors), weighed), attn + "proj");
}

// A perceptron, half of it multiplied by the other half's surroundings.
int AddGatedMlp(NetworkBuilder& builder, int x, const std::string& ffn) {
  x = builder.Linear(x, ffn + "fc1", Activation::kGelu);
  if (!builder.ok()) return x;
  const int half = builder.Channels(x) / 2;
  int gate = builder.Slice(x, half, half);
  gate = builder.LayerNorm(gate, ffn + "sg.norm", kLayerNormEpsilon);
  gate = builder.Conv(gate, ffn + "sg.conv", {.groups = half});
  return builder.Linear(builder.Mul(builder.Slice(x, 0, half), gate), ffn + "fc2");
}

// Every other block attends to channels. Every other one of the others shifts its windows, in odd
// groups beginning with the first.
int AddDatBlock(NetworkBuilder& builder, int x, int group, int block) {
  const std::string name = DatBlock(group, block), attn = name + "attn.";
  const bool shifted = block % 4 == (group % 2 == 0 ? 2 : 0);
  int y = builder.LayerNorm(x, name + "norm1", kLayerNormEpsilon);
  y = block % 2 == 0 ? AttendPixels(builder, y, attn, shifted) : AttendChannels(builder, y, attn);
  x = builder.Add(y, x);
  y = builder.LayerNorm(x, name + "norm2", kLayerNormEpsilon);
  return builder.Add(AddGatedMlp(builder, y, name + "ffn."), x);
}

int AddDatGroup(NetworkBuilder& builder, int x, int group) {
  int y = x;
  for (int i = 0; builder.ok() && builder.file().Has(DatBlock(group, i) + "norm1.weight"); ++i) {
    y = AddDatBlock(builder, y, group, i);
  }
  return builder.Add(AddConvOrThree(builder, y, SwinGroup(group) + "conv"), x);
}

}  // namespace

bool RecogniseDat(const TensorFile& file) {
  return HasSwinFrame(file) && file.Has("before_RG.1.weight") &&
         file.Has(DatBlock(0, 0) + "attn.attns.0.rpe_biases") &&
         file.Has(DatBlock(0, 0) + "ffn.sg.norm.weight");
}

absl::StatusOr<int> DatScale(const TensorFile& file) { return SwinFrameScale(file); }

void BuildDat(NetworkBuilder& builder) {
  BuildSwinFrame(
      builder, {.first_norm = "before_RG.1", .add_group = AddDatGroup, .group_mark = [](int group) {
                  return DatBlock(group, 0) + "norm1.weight";
                }});
}

}  // namespace upscaled
