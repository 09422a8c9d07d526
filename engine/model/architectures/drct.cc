#include "engine/model/architectures/drct.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/architectures/swin_network.h"

namespace upscaled {
namespace {

constexpr int kDrctBlocks = 5;
constexpr float kDrctFactor = 0.2f;  // of what a group adds to its input
constexpr NetworkBuilder::ConvOptions kDrctLeaky = {.activation = Activation::kLeakyRelu,
                                                    .slope = 0.2f};

// Block `i` of a group, from 1 on.
std::string DrctBlock(int group, int i) { return absl::StrCat(SwinGroup(group), "swin", i, "."); }

int AddDrctGroup(NetworkBuilder& builder, int x, int group, int window_px) {
  std::vector<int> parts = {x};
  for (int i = 1; i <= kDrctBlocks; ++i) {
    const int read = parts.size() == 1 ? x : builder.Concat(parts);
    const int y =
        AddSwinBlock(builder, read, DrctBlock(group, i), window_px, i % 2 == 0 ? window_px / 2 : 0);
    const std::string adjust = absl::StrCat(SwinGroup(group), "adjust", i);
    if (i < kDrctBlocks) {
      parts.push_back(builder.Conv(y, adjust, kDrctLeaky));
    } else {
      parts.push_back(builder.Conv(y, adjust, {.factor = kDrctFactor}));
    }
  }
  return builder.Add(parts.back(), x);
}

}  // namespace

bool RecogniseDrct(const TensorFile& file) {
  return HasSwinFrame(file) && file.Has(DrctBlock(0, 1) + "attn.qkv.weight") &&
         file.Has(DrctBlock(0, kDrctBlocks) + "attn.qkv.weight");
}

absl::StatusOr<int> DrctScale(const TensorFile& file) { return SwinFrameScale(file); }

void BuildDrct(NetworkBuilder& builder) {
  const int window_px = WindowSide(builder, DrctBlock(0, 1) + "attn");
  if (!builder.ok()) return;
  BuildSwinFrame(
      builder,
      {.align_px = window_px,
       .add_group = [window_px](NetworkBuilder& to, int x,
                                int group) { return AddDrctGroup(to, x, group, window_px); },
       .group_mark = [](int group) { return DrctBlock(group, 1) + "norm1.weight"; }});
}

}  // namespace upscaled
