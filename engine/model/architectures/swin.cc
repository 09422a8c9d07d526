#include "engine/model/architectures/swin.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

std::string TableOf(const std::string& name) { return name + ".relative_position_bias_table"; }

}  // namespace

std::vector<float> ExpandBias(const std::vector<float>& table, int heads, int window_width_px,
                              int window_height_px) {
  const int width = window_width_px, height = window_height_px, tokens = width * height;
  std::vector<float> bias;
  bias.reserve(size_t{1} * heads * tokens * tokens);
  for (int head = 0; head < heads; ++head) {
    for (int query = 0; query < tokens; ++query) {
      for (int key = 0; key < tokens; ++key) {
        const int y = query / width - key / width + height - 1;
        const int x = query % width - key % width + width - 1;
        bias.push_back(table[(size_t{1} * y * (2 * width - 1) + x) * heads + head]);
      }
    }
  }
  return bias;
}

void ScaleQueries(Layer& qkv, int heads) {
  const size_t channels = qkv.bias.size() / 3, weights = qkv.weights.size() / 3;
  const float scale = 1 / std::sqrt(static_cast<float>(channels / heads));
  for (size_t i = 0; i < weights; ++i) qkv.weights[i] *= scale;
  for (size_t i = 0; i < channels; ++i) qkv.bias[i] *= scale;
}

bool AcceptHeads(NetworkBuilder& builder, const std::string& name, int64_t heads, int channels,
                 int64_t pairs) {
  if (heads < 1 || channels % heads != 0) {
    builder.Fail(absl::InvalidArgumentError(
        absl::StrCat(Quote(name), " is of ", heads, " heads for ", channels, " channels")));
  } else if (heads * pairs > kMaxWeights) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(Quote(name), " makes ", heads * pairs,
                                                         " biases, the limit is ", kMaxWeights)));
  }
  return builder.ok();
}

int WindowSide(NetworkBuilder& builder, const std::string& name) {
  return SideOfTable(builder, TableOf(name));
}

int SideOfTable(NetworkBuilder& builder, const std::string& table) {
  const int64_t rows = builder.Shape(table, 2)[0];
  if (!builder.ok()) return 0;
  const int64_t side = (std::lround(std::sqrt(static_cast<double>(rows))) + 1) / 2;
  if (side >= 1 && side <= kMaxWindowPx && rows == (2 * side - 1) * (2 * side - 1)) {
    return static_cast<int>(side);
  }
  builder.Fail(absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quote(table), " has ", rows,
                   " rows, must have (2 w - 1)^2 for windows of 1..", kMaxWindowPx, " pixels")));
  return 0;
}

int AttendInWindows(NetworkBuilder& builder, int input, const std::string& name, int window_px,
                    int rolled_px) {
  const int64_t rows = builder.Shape(TableOf(name), 2)[0],
                heads = builder.Shape(TableOf(name), 2)[1];
  if (!builder.ok()) return 0;
  const int channels = builder.Channels(input);
  const int64_t tokens = int64_t{window_px} * window_px;
  if (!AcceptHeads(builder, TableOf(name), heads, channels, tokens * tokens)) return 0;
  Layer qkv = builder.ReadLinear(name + ".qkv", channels);
  if (!builder.ok()) return 0;
  ScaleQueries(qkv, static_cast<int>(heads));
  const WindowAxis windows = RolledWindows(window_px, rolled_px);
  Layer attention{.op = Op::kWindowAttention,
                  .name = name,
                  .groups = static_cast<int>(heads),
                  .window_x = windows,
                  .window_y = windows};
  const std::vector<float> table = builder.Read(TableOf(name), {rows, heads});
  if (!builder.ok()) return 0;
  attention.weights = ExpandBias(table, attention.groups, window_px, window_px);
  const int attended =
      builder.WindowAttention(builder.Conv(input, std::move(qkv)), std::move(attention));
  return builder.Linear(attended, name + ".proj");
}

int Mlp(NetworkBuilder& builder, int input, const std::string& first, const std::string& second) {
  return builder.Linear(builder.Linear(input, first, Activation::kGelu), second);
}

int AddNormIfThere(NetworkBuilder& builder, int input, const std::string& name) {
  if (!builder.file().Has(name + ".weight")) return input;
  return builder.LayerNorm(input, name, kLayerNormEpsilon);
}

int AddSwinBlock(NetworkBuilder& builder, int input, const std::string& block, int window_px,
                 int rolled_px, const MlpNames& mlp) {
  // Masks and indices follow from the window.
  builder.Ignore(block + "attn_mask");
  builder.Ignore(block + "attn.relative_position_index");
  int x = AddNormIfThere(builder, input, block + "norm1");
  x = builder.Add(AttendInWindows(builder, x, block + "attn", window_px, rolled_px), input);
  const int y = AddNormIfThere(builder, x, block + "norm2");
  const auto name = [&block](std::string_view part) { return absl::StrCat(block, ToAbsl(part)); };
  return builder.Add(Mlp(builder, y, name(mlp.first), name(mlp.second)), x);
}

}  // namespace upscaled
