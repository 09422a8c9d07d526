#include "engine/model/architectures/swin.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

std::string TableOf(const std::string& name) { return name + ".relative_position_bias_table"; }

// The bias of each pixel of a window for each other one: [head][query][key].
std::vector<float> ExpandBias(const std::vector<float>& table, int heads, int window_px) {
  const int distances = 2 * window_px - 1, tokens = window_px * window_px;
  std::vector<float> bias;
  bias.reserve(size_t{1} * heads * tokens * tokens);
  for (int head = 0; head < heads; ++head) {
    for (int query = 0; query < tokens; ++query) {
      for (int key = 0; key < tokens; ++key) {
        const int y = query / window_px - key / window_px + window_px - 1;
        const int x = query % window_px - key % window_px + window_px - 1;
        bias.push_back(table[(size_t{1} * y * distances + x) * heads + head]);
      }
    }
  }
  return bias;
}

}  // namespace

int WindowSide(NetworkBuilder& builder, const std::string& name) {
  const int64_t rows = builder.Shape(TableOf(name), 2)[0];
  if (!builder.ok()) return 0;
  const int64_t side = (std::lround(std::sqrt(static_cast<double>(rows))) + 1) / 2;
  if (side >= 1 && side <= kMaxWindowPx && rows == (2 * side - 1) * (2 * side - 1)) {
    return static_cast<int>(side);
  }
  builder.Fail(absl::InvalidArgumentError(
      absl::StrCat("tensor ", Quote(TableOf(name)), " has ", rows,
                   " rows, must have (2 w - 1)^2 for windows of 1..", kMaxWindowPx, " pixels")));
  return 0;
}

int AttendInWindows(NetworkBuilder& builder, int input, const std::string& name, int window_px,
                    int rolled_px) {
  const int64_t rows = builder.Shape(TableOf(name), 2)[0],
                heads = builder.Shape(TableOf(name), 2)[1];
  if (!builder.ok()) return 0;
  const int channels = builder.Channels(input);
  if (heads < 1 || channels % heads != 0) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        "tensor ", Quote(TableOf(name)), " is of ", heads, " heads for ", channels, " channels")));
    return 0;
  }
  Layer qkv = builder.ReadLinear(name + ".qkv", channels);
  if (!builder.ok()) return 0;
  const float scale = 1 / std::sqrt(static_cast<float>(channels / heads));
  const size_t query_weights = qkv.weights.size() / 3, queries = qkv.bias.size() / 3;
  for (size_t i = 0; i < query_weights; ++i) qkv.weights[i] *= scale;
  for (size_t i = 0; i < queries; ++i) qkv.bias[i] *= scale;
  Layer attention{.op = Op::kWindowAttention,
                  .name = name,
                  .groups = static_cast<int>(heads),
                  .window_px = window_px,
                  .shift_px = rolled_px == 0 ? 0 : window_px - rolled_px};
  const std::vector<float> table = builder.Read(TableOf(name), {rows, heads});
  if (!builder.ok()) return 0;
  attention.weights = ExpandBias(table, attention.groups, window_px);
  const int attended =
      builder.WindowAttention(builder.Conv(input, std::move(qkv)), std::move(attention));
  return builder.Linear(attended, name + ".proj");
}

int Mlp(NetworkBuilder& builder, int input, const std::string& first, const std::string& second) {
  return builder.Linear(builder.Linear(input, first, Activation::kGelu), second);
}

}  // namespace upscaled
