#include "engine/model/architectures/swinir.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/architectures/swin_network.h"

namespace upscaled {
namespace {

constexpr int kJpegWindowPx = 7;
constexpr float kJpegRange = 255;

std::string SwinBlock(int group, int block) {
  return absl::StrCat(SwinGroup(group), "residual_group.blocks.", block, ".");
}

// Blocks, every other one with its windows shifted by half, and a convolution or three.
int AddSwinGroup(NetworkBuilder& builder, int x, int group, int window_px) {
  int y = x;
  for (int i = 0; builder.ok() && builder.file().Has(SwinBlock(group, i) + "norm1.weight"); ++i) {
    y = AddSwinBlock(builder, y, SwinBlock(group, i), window_px, i % 2 == 0 ? 0 : window_px / 2);
  }
  return builder.Add(AddConvOrThree(builder, y, SwinGroup(group) + "conv"), x);
}

}  // namespace

bool RecogniseSwinIr(const TensorFile& file) {
  return HasSwinFrame(file) && file.Has(SwinBlock(0, 0) + "attn.relative_position_bias_table") &&
         file.Has(SwinBlock(0, 0) + "attn.qkv.weight") &&
         file.Has(SwinBlock(0, 0) + "mlp.fc1.weight") &&
         !file.Has(SwinBlock(0, 0) + "conv_block.cab.0.weight");  // HAT's
}

absl::StatusOr<int> SwinIrScale(const TensorFile& file) { return SwinFrameScale(file); }

void BuildSwinIr(NetworkBuilder& builder) {
  const int window_px = WindowSide(builder, SwinBlock(0, 0) + "attn");
  if (!builder.ok()) return;
  BuildSwinFrame(
      builder,
      {.align_px = window_px,
       .range = window_px == kJpegWindowPx ? kJpegRange : 1,
       .add_group = [window_px](NetworkBuilder& to, int x,
                                int group) { return AddSwinGroup(to, x, group, window_px); },
       .group_mark = [](int group) { return SwinBlock(group, 0) + "norm1.weight"; }});
}

}  // namespace upscaled
