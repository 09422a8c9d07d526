#include "engine/model/architectures/swin_unet.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/architectures/swin.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr int kUnetAlignPx = 48;  // nunif's tiles are multiples of it, and their border
constexpr int kUnetBorderPx = 8;  // on every side: what the valid convolutions lose, and a crop
constexpr int kUnetCropPx = 6;
constexpr int kUnetFactor = 2;  // from a level of the U-Net to the next
constexpr NetworkBuilder::ConvOptions kPatch = {
    .padding_px = 0, .activation = Activation::kLeakyRelu, .slope = 0.1f};
constexpr char kToImage[] = "unet.to_image.proj";

std::string UnetBlock(int stage, int block) {
  return absl::StrCat("unet.swin", stage, ".block.", block, ".");
}

// The blocks of a stage, every other one with its windows shifted by half.
int AddStage(NetworkBuilder& builder, int x, int stage) {
  const int window_px = WindowSide(builder, UnetBlock(stage, 0) + "attn");
  for (int i = 0; builder.ok() && builder.file().Has(UnetBlock(stage, i) + "attn.qkv.weight");
       ++i) {
    x = AddSwinBlock(builder, x, UnetBlock(stage, i), window_px, i % 2 == 0 ? 0 : window_px / 2,
                     kTorchvisionMlp);
  }
  return x;
}

int AddDown(NetworkBuilder& builder, int x, const std::string& name) {
  return builder.Conv(x, name + ".conv", {.stride_px = kUnetFactor, .padding_px = 0});
}

int AddUp(NetworkBuilder& builder, int x, const std::string& name) {
  return builder.PixelShuffle(builder.Linear(x, name + ".proj"), kUnetFactor);
}

}  // namespace

bool RecogniseSwinUnet(const TensorFile& file) {
  return file.Has("unet.patch.0.weight") && file.Has(UnetBlock(1, 0) + "attn.qkv.weight") &&
         file.Has("unet.to_image.proj.weight");
}

absl::StatusOr<int> SwinUnetScale(const TensorFile& file) {
  const TensorInfo* weight = file.Find(absl::StrCat(kToImage, ".weight"));
  return ScaleOfShuffle(weight == nullptr || weight->shape.empty() ? 0 : weight->shape[0]);
}

void BuildSwinUnet(NetworkBuilder& builder) {
  for (const char* mark : {kNunifAntialias, kNunifDownscaled}) {
    if (!builder.file().Has(mark)) continue;
    return builder.Fail(absl::UnimplementedError(
        absl::StrCat("is stored with ", Quote(mark), ", a bicubic resize that it does not hold")));
  }
  const absl::StatusOr<int> scale = SwinUnetScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  int x = builder.Pad(builder.Input(), kUnetBorderPx, PadMode::kReplicate, kUnetAlignPx);
  x = builder.Conv(x, "unet.patch.0", kPatch);
  x = builder.Crop(builder.Conv(x, "unet.patch.2", kPatch), kUnetCropPx);
  const int wide = AddStage(builder, x, 1);
  const int middle = AddStage(builder, AddDown(builder, wide, "unet.down1"), 2);
  x = AddStage(builder, AddDown(builder, middle, "unet.down2"), 3);
  x = AddStage(builder, builder.Add(AddUp(builder, x, "unet.up2"), middle), 4);
  const bool widens = builder.file().Has("unet.proj2.weight");
  const int skip = widens ? builder.Linear(wide, "unet.proj2") : wide;
  x = AddStage(builder, builder.Add(AddUp(builder, x, "unet.up1"), skip), 5);
  x = builder.PixelShuffle(builder.Linear(x, kToImage), *scale);
  builder.Activate(x, Activation::kClip);
}

}  // namespace upscaled
