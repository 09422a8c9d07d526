#include "tests/engine/model/published_shapes.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace upscaled::test {

Shapes operator+(Shapes a, const Shapes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Shapes Compact(int scale, bool prelu) {
  const Shapes slopes = prelu ? Shapes{{"body.1.weight", {4}}} : Shapes{};
  return ConvShapes("body.0", 4, 3, 3) + slopes + ConvShapes("body.2", 3 * scale * scale, 4, 3);
}

Shapes Esrgan(int planes, int ups) {
  Shapes shapes = ConvShapes("conv_first", 4, planes, 3);
  for (int dense = 1; dense <= 3; ++dense) {
    for (int i = 1; i <= 5; ++i) {
      shapes = shapes + ConvShapes(absl::StrCat("body.0.rdb", dense, ".conv", i), i < 5 ? 2 : 4,
                                   4 + 2 * (i - 1), 3);
    }
  }
  shapes = shapes + ConvShapes("conv_body", 4, 4, 3);
  for (int i = 1; i <= ups; ++i) {
    shapes = shapes + ConvShapes(absl::StrCat("conv_up", i), 4, 4, 3);
  }
  return shapes + ConvShapes("conv_hr", 4, 4, 3) + ConvShapes("conv_last", 3, 4, 3);
}

namespace {

Shapes Conv3xc(const std::string& name, int64_t out, int64_t in) {
  return ConvShapes(name + ".sk", out, in, 1) + ConvShapes(name + ".conv.0", 2 * in, in, 1) +
         ConvShapes(name + ".conv.1", 2 * out, 2 * in, 3) +
         ConvShapes(name + ".conv.2", out, 2 * out, 1) +
         ConvShapes(name + ".eval_conv", out, in, 3);
}

}  // namespace

Shapes Span(int64_t width, bool norm) {
  Shapes shapes = Conv3xc("conv_1", width, 3) + Conv3xc("conv_2", width, width);
  for (int block = 1; block <= 6; ++block) {
    for (const char* conv : {".c1_r", ".c2_r", ".c3_r"}) {
      shapes = shapes + Conv3xc(absl::StrCat("block_", block, conv), width, width);
    }
  }
  if (!norm) shapes = shapes + Shapes{{"no_norm", {1}}};
  return shapes + ConvShapes("conv_cat", width, 4 * width, 1) +
         ConvShapes("upsampler.0", 12, width, 3);
}

Shapes ArtCnn(int planes, int scale) {
  Shapes shapes = ConvShapes("conv0", 4, planes, 3) + ConvShapes("res_block.1", 4, 4, 3);
  for (const char* conv : {"0.0", "1.0", "2"}) {
    shapes = shapes + ConvShapes(absl::StrCat("res_block.0.conv.", conv), 4, 4, 3);
  }
  return shapes + ConvShapes("depth_to_space.upscale.0", planes * scale * scale, 4, 3);
}

Shapes Dis(int stages) {
  Shapes shapes = ConvShapes("head", 6, 3, 3) + ConvShapes("fusion", 6, 6, 3) +
                  ConvShapes("tail", 3, 6, 3) +
                  Shapes{{"head_act.weight", {6}},
                         {"body.0.act.weight", {6}},
                         {"body.0.dw_conv.depthwise.weight", {6, 1, 3, 3}},
                         {"body.0.dw_conv.pointwise.weight", {6, 6, 1, 1}}};
  for (int i = 0; i < stages; ++i) {
    const std::string name = stages == 1 ? "upsampler" : absl::StrCat("upsampler.", i);
    shapes = shapes + ConvShapes(name + ".conv", 24, 6, 3) + Shapes{{name + ".act.weight", {6}}};
  }
  return shapes;
}

Shapes Plksr(bool real, bool gate) {
  const std::string block = "feats.1.", mixer = block + (real ? "channel_mixer." : "channe_mixer.");
  Shapes shapes = ConvShapes("feats.0", 8, 3, 3) + ConvShapes(mixer + "0", 16, 8, 3) +
                  ConvShapes(mixer + "2", 8, 16, real ? 3 : 1) +
                  ConvShapes(block + "lk.conv", 2, 2, 17) + ConvShapes(block + "refine", 8, 8, 1);
  if (gate) shapes = shapes + ConvShapes(block + "attn.f.0", 8, 8, 3);
  return shapes + ConvShapes(real ? "feats.3" : "feats.2", 12, 8, 3);
}

Shapes Mosr(bool mean_end) {
  return ConvShapes("gblocks.0", 4, 3, 3) +
         Shapes{{"gblocks.1.norm.weight", {4}}, {"gblocks.1.norm.bias", {4}}} +
         ConvShapes("gblocks.1.fc1", 12, 4, 3) + ConvShapes("gblocks.1.conv", 3, 1, 7) +
         ConvShapes("gblocks.1.fc2", 4, 6, 3) + ConvShapes("gblocks.2", 8, 4, 3) +
         ConvShapes("gblocks.4", 4, 8, 3) + ConvShapes("gblocks.6", 4, 4, 1) +
         ConvShapes("shortcut.block.0", 4, 3, 3) + ConvShapes("shortcut.block.2", 4, 4, 3) +
         ConvShapes("shortcut.conv11", 4, 3, 1) +
         (mean_end ? ConvShapes("upsampler.in_to_k", 96, 4, 3)
                   : ConvShapes("upsampler.0", 12, 4, 3));
}

namespace {

Shapes Convs(const std::string& name, int64_t in, int64_t middle, int64_t out, bool excite) {
  Shapes shapes =
      ConvShapes(name + ".conv.0", middle, in, 3) + ConvShapes(name + ".conv.2", out, middle, 3);
  if (excite) {
    shapes = shapes + ConvShapes(name + ".seblock.conv1", out / 8, out, 1) +
             ConvShapes(name + ".seblock.conv2", out, out / 8, 1);
  }
  return shapes;
}

}  // namespace

Shapes Cunet(int scale) {
  Shapes bottom = ConvShapes("unet1.conv_bottom", 3, 64, 3);
  if (scale == 2) {
    bottom = {{"unet1.conv_bottom.weight", {64, 3, 4, 4}}, {"unet1.conv_bottom.bias", {3}}};
  }
  return Convs("unet1.conv1", 3, 32, 64, false) + ConvShapes("unet1.conv1_down", 64, 64, 2) +
         Convs("unet1.conv2", 64, 128, 64, true) + ConvShapes("unet1.conv2_up", 64, 64, 2) +
         ConvShapes("unet1.conv3", 64, 64, 3) + bottom + Convs("unet2.conv1", 3, 32, 64, false) +
         ConvShapes("unet2.conv1_down", 64, 64, 2) + Convs("unet2.conv2", 64, 64, 128, true) +
         ConvShapes("unet2.conv2_down", 128, 128, 2) + Convs("unet2.conv3", 128, 256, 128, true) +
         ConvShapes("unet2.conv3_up", 128, 128, 2) + Convs("unet2.conv4", 128, 64, 64, true) +
         ConvShapes("unet2.conv4_up", 64, 64, 2) + ConvShapes("unet2.conv5", 64, 64, 3) +
         ConvShapes("unet2.conv_bottom", 3, 64, 3);
}

}  // namespace upscaled::test
