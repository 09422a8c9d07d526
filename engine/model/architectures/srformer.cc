// Each pixel of a window looks at blocks of 2x2 pixels, which have a quarter of the channels: laid
// side by side, a block has as many as a pixel. So do the queries here: a block's four pixels are
// four times as many heads, which share keys, values and biases, and all is attention among blocks
// in windows of half the side.
//
// Windows of an odd half (22 pixels: 11 blocks) are rolled by an odd number of pixels, so that
// blocks lie across the image's left and upper edge. The published mask counts such a block as
// inside, with the pixels of the opposite side: its features are wrapped around. Blocks that lie
// across the right and lower edge are the same ones, which no pixel there may see; only the edge's
// own pixels look from within them.
#include "engine/model/architectures/srformer.h"

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

constexpr int kBlockSide = 2;  // of a block
constexpr int kBlockPlaces = kBlockSide * kBlockSide;
constexpr float kUnseen = -1e4f;  // added to the score of a block that must not be seen

std::string SrFormerBlock(int group, int block) {
  return absl::StrCat(SwinGroup(group), "residual_group.blocks.", block, ".");
}

// The attention of one block of the network.
class PermutedAttention {
 public:
  PermutedAttention(NetworkBuilder& builder, std::string name, int window_px, int rolled_px,
                    int channels)
      : builder_(builder),
        name_(std::move(name)),
        window_blocks_(window_px / kBlockSide),
        rolled_blocks_(rolled_px / kBlockSide),
        straddles_(rolled_px % kBlockSide != 0),
        channels_(channels) {}

  int Append(int x) {
    const std::string table_name = name_ + ".relative_position_bias_table";
    const std::vector<int64_t> shape = builder_.Shape(table_name, 2);
    const int64_t tokens = int64_t{window_blocks_} * window_blocks_;
    if (!builder_.ok() ||
        !AcceptHeads(builder_, table_name, shape[1], channels_, kBlockPlaces * tokens * tokens)) {
      return 0;
    }
    heads_ = static_cast<int>(shape[1]);
    if (channels_ % kBlockPlaces != 0) {
      builder_.Fail(absl::InvalidArgumentError(absl::StrCat(
          Quote(name_), " cannot share ", channels_, " channels among blocks of 4 pixels")));
      return 0;
    }
    if (!AcceptWeights(channels_)) return 0;
    const std::vector<float> table = builder_.Read(table_name, shape);
    Layer query = ReadQueries(), keys_and_values = builder_.ReadLinear(name_ + ".kv", channels_);
    if (!builder_.ok()) return 0;
    if (std::ssize(keys_and_values.bias) != channels_ / 2) {
      builder_.Fail(absl::InvalidArgumentError(
          absl::StrCat(Quote(name_ + ".kv"), " gives ", keys_and_values.bias.size(),
                       " channels, must give ", channels_ / 2)));
      return 0;
    }
    std::vector<int> parts = QueriesOf(builder_.Conv(x, std::move(query)));
    const int both = builder_.Conv(x, std::move(keys_and_values));
    const int keys = KeysOf(both, /*first=*/0, straddles_);
    const int values = KeysOf(both, channels_ / kBlockPlaces, /*masks=*/false);
    for (const int part : {keys, values}) parts.insert(parts.end(), kBlockPlaces, part);
    return Merge(builder_.WindowAttention(builder_.Concat(parts), Attention(table)));
  }

 private:
  // Where blocks straddle the edge, a head has one channel more: it marks the unseen blocks.
  int depth() const { return channels_ / heads_ + (straddles_ ? 1 : 0); }
  int head_channels() const { return heads_ * depth(); }
  // The position of the file's channel `c` among the channels of all heads.
  int Place(int c) const { return c / (channels_ / heads_) * depth() + c % (channels_ / heads_); }

  // Fails if a projection from all of a block's heads to `outputs` channels has too many weights.
  bool AcceptWeights(int64_t outputs) {
    const int64_t weights = int64_t{kBlockPlaces} * kBlockPlaces * head_channels() * outputs;
    if (weights > kMaxWeights) {
      builder_.Fail(absl::InvalidArgumentError(
          absl::StrCat(Quote(name_), " makes ", weights, " weights, the limit is ", kMaxWeights)));
    }
    return builder_.ok();
  }

  // With a 1 for the marking channel.
  Layer ReadQueries() {
    const Layer read = builder_.ReadLinear(name_ + ".q", channels_);
    Layer query{.op = Op::kConv, .name = read.name};
    if (!builder_.ok()) return query;
    if (std::ssize(read.bias) != channels_) {
      builder_.Fail(absl::InvalidArgumentError(absl::StrCat(
          Quote(name_ + ".q"), " gives ", read.bias.size(), " channels, must give ", channels_)));
      return query;
    }
    const float scale = 1 / std::sqrt(static_cast<float>(channels_ / heads_));
    query.weights.assign(size_t{1} * head_channels() * channels_, 0.0f);
    query.bias.assign(head_channels(), 1.0f);
    for (int out = 0; out < channels_; ++out) {
      const size_t from = size_t{1} * out * channels_, to = size_t{1} * Place(out) * channels_;
      for (int in = 0; in < channels_; ++in)
        query.weights[to + in] = read.weights[from + in] * scale;
      query.bias[Place(out)] = read.bias[out] * scale;
    }
    return query;
  }

  int Wrap(int x) { return straddles_ ? builder_.Pad(x, 1, PadMode::kWrap) : x; }

  // The queries of a block's first pixel, of its second and so on.
  std::vector<int> QueriesOf(int queries) {
    const int wrapped = Wrap(queries);
    std::vector<int> parts;
    for (int place = 0; place < kBlockPlaces; ++place) {
      Layer pick{.op = Op::kGroupedConv,
                 .name = absl::StrCat(name_, " queries ", place),
                 .kernel_px = kBlockSide,
                 .stride_px = kBlockSide,
                 .groups = head_channels()};
      pick.weights.assign(size_t{1} * head_channels() * kBlockPlaces, 0.0f);
      for (int c = 0; c < head_channels(); ++c) pick.weights[c * kBlockPlaces + place] = 1;
      pick.bias.assign(head_channels(), 0.0f);
      parts.push_back(builder_.GroupedConv(wrapped, std::move(pick)));
    }
    return parts;
  }

  // The blocks of a quarter of the channels, from `first` on: side by side.
  int KeysOf(int both, int first, bool masks) {
    const int own = channels_ / kBlockPlaces, inputs = own + (masks ? 1 : 0);
    int x = Wrap(builder_.Slice(both, first, own));
    if (masks) x = builder_.Concat({x, UnseenOf(both)});
    Layer blocks{.name = absl::StrCat(name_, masks ? " keys" : " blocks"),
                 .kernel_px = kBlockSide,
                 .stride_px = kBlockSide};
    blocks.weights.assign(size_t{1} * head_channels() * inputs * kBlockPlaces, 0.0f);
    blocks.bias.assign(head_channels(), 0.0f);
    const auto weight = [&](int out, int in, int place) -> float& {
      return blocks.weights[(size_t{1} * out * inputs + in) * kBlockPlaces + place];
    };
    for (int c = 0; c < channels_; ++c) weight(Place(c), c % own, c / own) = 1;
    for (int head = 0; masks && head < heads_; ++head) {
      weight((head + 1) * depth() - 1, own, kBlockPlaces - 1) = 1;
    }
    return builder_.Conv(x, std::move(blocks));
  }

  // A plane of zeros; beyond the image kUnseen.
  int UnseenOf(int like) {
    const int zero = builder_.Affine(builder_.Slice(like, 0, 1), {0.0f}, {0.0f});
    return builder_.Pad(zero, 1, PadMode::kConstant, /*align_px=*/1, kUnseen);
  }

  Layer Attention(const std::vector<float>& table) const {
    const WindowAxis windows = RolledWindows(
        window_blocks_, straddles_ ? window_blocks_ - rolled_blocks_ : rolled_blocks_);
    Layer attention{.op = Op::kWindowAttention,
                    .name = name_,
                    .groups = kBlockPlaces * heads_,
                    .window_x = windows,
                    .window_y = windows};
    const std::vector<float> bias = ExpandBias(table, heads_, window_blocks_, window_blocks_);
    for (int place = 0; place < kBlockPlaces; ++place) {
      attention.weights.insert(attention.weights.end(), bias.begin(), bias.end());
    }
    return attention;
  }

  // The projection of each pixel, put back into its place.
  int Merge(int attended) {
    const Layer read = builder_.ReadLinear(name_ + ".proj", channels_);
    if (!builder_.ok()) return 0;
    const int outputs = static_cast<int>(read.bias.size());
    if (!AcceptWeights(outputs)) return 0;
    Layer merge{.name = read.name, .kernel_px = kBlockSide, .stride_px = kBlockSide};
    merge.weights.assign(size_t{1} * kBlockPlaces * head_channels() * outputs * kBlockPlaces, 0.0f);
    merge.bias = read.bias;
    for (int place = 0; place < kBlockPlaces; ++place) {
      for (int in = 0; in < channels_; ++in) {
        const size_t row = size_t{1} * place * head_channels() + Place(in);
        for (int out = 0; out < outputs; ++out) {
          merge.weights[(row * outputs + out) * kBlockPlaces + place] =
              read.weights[size_t{1} * out * channels_ + in];
        }
      }
    }
    const int x = builder_.ConvTranspose(attended, std::move(merge));
    return straddles_ ? builder_.Crop(x, 1) : x;
  }

  NetworkBuilder& builder_;
  const std::string name_;
  const int window_blocks_, rolled_blocks_;
  const bool straddles_;
  const int channels_;
  int heads_ = 1;
};

// A perceptron with a depthwise convolution in its middle.
int ConvMlp(NetworkBuilder& builder, int x, const std::string& mlp) {
  x = builder.Linear(x, mlp + "fc1", Activation::kGelu);
  if (!builder.ok()) return 0;
  const int near = builder.Conv(x, mlp + "dwconv.depthwise_conv.0",
                                {.groups = builder.Channels(x), .activation = Activation::kGelu});
  return builder.Linear(builder.Add(x, near), mlp + "fc2");
}

int AddSrFormerBlock(NetworkBuilder& builder, int x, const std::string& block, int window_px,
                     int rolled_px) {
  builder.Ignore(block + "attn_mask");
  builder.Ignore(block + "attn.aligned_relative_position_index");
  const int normal = builder.LayerNorm(x, block + "norm1", kLayerNormEpsilon);
  if (!builder.ok()) return 0;
  PermutedAttention attention(builder, block + "attn", window_px, rolled_px, builder.Channels(x));
  x = builder.Add(attention.Append(normal), x);
  const int y = builder.LayerNorm(x, block + "norm2", kLayerNormEpsilon);
  return builder.Add(ConvMlp(builder, y, block + "mlp."), x);
}

int AddSrFormerGroup(NetworkBuilder& builder, int x, int group, int window_px) {
  int y = x;
  for (int i = 0; builder.ok() && builder.file().Has(SrFormerBlock(group, i) + "norm1.weight");
       ++i) {
    y = AddSrFormerBlock(builder, y, SrFormerBlock(group, i), window_px,
                         i % 2 == 0 ? 0 : window_px / 2);
  }
  return builder.Add(AddConvOrThree(builder, y, SwinGroup(group) + "conv"), x);
}

}  // namespace

bool RecogniseSrFormer(const TensorFile& file) {
  return HasSwinFrame(file) && file.Has(SrFormerBlock(0, 0) + "attn.kv.weight") &&
         file.Has(SrFormerBlock(0, 0) + "attn.q.weight") &&
         file.Has(SrFormerBlock(0, 0) + "mlp.dwconv.depthwise_conv.0.weight");
}

absl::StatusOr<int> SrFormerScale(const TensorFile& file) { return SwinFrameScale(file); }

void BuildSrFormer(NetworkBuilder& builder) {
  const int window_px = kBlockSide * WindowSide(builder, SrFormerBlock(0, 0) + "attn");
  if (!builder.ok()) return;
  BuildSwinFrame(
      builder,
      {.align_px = window_px,
       .add_group = [window_px](NetworkBuilder& to, int x,
                                int group) { return AddSrFormerGroup(to, x, group, window_px); },
       .group_mark = [](int group) { return SrFormerBlock(group, 0) + "norm1.weight"; }});
}

}  // namespace upscaled
