#include "engine/model/architectures/cunet.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace upscaled {
namespace {

using Options = NetworkBuilder::ConvOptions;

constexpr float kCunetSlope = 0.1f;
constexpr Options kValid = {
    .padding_px = 0, .activation = Activation::kLeakyRelu, .slope = kCunetSlope};
constexpr Options kHalve = {
    .stride_px = 2, .padding_px = 0, .activation = Activation::kLeakyRelu, .slope = kCunetSlope};
constexpr Options kPlain = {.padding_px = 0};
// Values of Real-CUGAN's "pro" networks; they have a mark.
constexpr float kProFactor = 0.7f, kProOffset = 0.15f;
constexpr char kProMark[] = "pro";
// The pixels the second U-Net cuts off every side.
constexpr int kSecondLossPx = 20;
// The border cut off by the layers of the x4 network.
constexpr int kCunetBorderPx = 19;

int AddConvs(NetworkBuilder& builder, int x, const std::string& name) {
  x = builder.Conv(x, name + ".conv.0", kValid);
  x = builder.Conv(x, name + ".conv.2", kValid);
  const std::string excite = name + ".seblock";
  if (!builder.file().Has(excite + ".conv1.weight")) return x;
  int scale = builder.GlobalAveragePool(x);
  scale = builder.FullyConnected(scale, excite + ".conv1", Activation::kRelu);
  scale = builder.FullyConnected(scale, excite + ".conv2", Activation::kSigmoid);
  return builder.Mul(x, scale);
}

// conv_bottom: a plain convolution, or the enlarging one: 4x4 by two, 5x5 by three.
int AddBottom(NetworkBuilder& builder, int x, const std::string& unet) {
  const std::string name = unet + "conv_bottom";
  const int64_t kernel_px = builder.Shape(name + ".weight", 4)[2];
  if (kernel_px == 4) return builder.ConvTranspose(x, name, {.stride_px = 2, .padding_px = 3});
  if (kernel_px == 5) return builder.ConvTranspose(x, name, {.stride_px = 3, .padding_px = 2});
  return builder.Conv(x, name, kPlain);
}

// One level down and up again.
int AddFirst(NetworkBuilder& builder, int x, const std::string& unet) {
  const int wide = AddConvs(builder, x, unet + "conv1");
  int deep = builder.Conv(wide, unet + "conv1_down", kHalve);
  deep = AddConvs(builder, deep, unet + "conv2");
  deep = builder.ConvTranspose(deep, unet + "conv2_up", kHalve);
  x = builder.Conv(builder.Add(builder.Crop(wide, 4), deep), unet + "conv3", kValid);
  return AddBottom(builder, x, unet);
}

// Two levels.
int AddSecond(NetworkBuilder& builder, int x, const std::string& unet) {
  const int wide = AddConvs(builder, x, unet + "conv1");
  const int middle =
      AddConvs(builder, builder.Conv(wide, unet + "conv1_down", kHalve), unet + "conv2");
  int deep = AddConvs(builder, builder.Conv(middle, unet + "conv2_down", kHalve), unet + "conv3");
  deep = builder.ConvTranspose(deep, unet + "conv3_up", kHalve);
  deep = AddConvs(builder, builder.Add(builder.Crop(middle, 4), deep), unet + "conv4");
  deep = builder.ConvTranspose(deep, unet + "conv4_up", kHalve);
  x = builder.Conv(builder.Add(builder.Crop(wide, 16), deep), unet + "conv5", kValid);
  return AddBottom(builder, x, unet);
}

// Sees blocks of 2x2 pixels.
bool IsFast(const TensorFile& file) {
  const TensorInfo* first = file.Find("unet1.conv1.conv.0.weight");
  return first != nullptr && first->shape.size() == 4 && first->shape[1] == 12;
}

}  // namespace

bool RecogniseCunet(const TensorFile& file) {
  return file.Find("unet1.conv1.conv.0.weight") != nullptr &&
         file.Find("unet1.conv_bottom.weight") != nullptr &&
         file.Find("unet2.conv3.seblock.conv1.weight") != nullptr;
}

bool RecogniseCugan(const TensorFile& file) {
  if (!RecogniseCunet(file) || file.Has(kNunifMark)) return false;
  const absl::StatusOr<int> scale = CunetScale(file);
  return scale.ok() && *scale > 1;
}

absl::StatusOr<int> CunetScale(const TensorFile& file) {
  if (file.Find("conv_final.weight") != nullptr) return IsFast(file) ? 2 : 4;
  const TensorInfo* bottom = file.Find("unet1.conv_bottom.weight");
  const int64_t kernel_px = bottom == nullptr || bottom->shape.size() != 4 ? 0 : bottom->shape[2];
  if (kernel_px >= 3 && kernel_px <= 5) return static_cast<int>(kernel_px) - 2;
  return absl::InvalidArgumentError(absl::StrCat("the kernel of 'unet1.conv_bottom' is ", kernel_px,
                                                 " pixels high, must be 3, 4 or 5"));
}

namespace {

// The border Real-CUGAN's code fills by reflection.
struct CuganBorder {
  int padding_px, align_px;
};

// `scale`: 2 to 4. The fast network sees blocks of four pixels; its code aligns to 2, where it then
// fails for every second size.
CuganBorder BorderOfCugan(int scale, bool fast) {
  constexpr CuganBorder kBorders[] = {{18, 2}, {14, 4}, {19, 2}};
  return fast ? CuganBorder{38, 4} : kBorders[scale - 2];
}

void BuildUnets(NetworkBuilder& builder, bool reflects) {
  const absl::StatusOr<int> scale = CunetScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  const bool pro = builder.file().Has(kProMark);
  builder.Ignore(kProMark);
  const bool fast = IsFast(builder.file());
  int image = builder.Input();
  if (pro) image = builder.Affine(image, {kProFactor}, {kProOffset});
  int border_px = kCunetBorderPx;
  if (reflects && *scale > 1) {
    const CuganBorder border = BorderOfCugan(*scale, fast);
    border_px = border.padding_px;
    image = builder.Pad(image, border_px, PadMode::kReflect, border.align_px);
  }
  const int seen = fast ? builder.PixelUnshuffle(image, 2) : image;
  const int first = AddFirst(builder, seen, "unet1.");
  const int second = AddSecond(builder, first, "unet2.");
  int x = builder.Add(second, builder.Crop(first, kSecondLossPx));
  if (builder.file().Has("conv_final.weight")) {
    x = builder.Crop(builder.Conv(x, "conv_final", kPlain), 1);
    x = builder.PixelShuffle(x, 2);
    x = builder.Add(x, builder.Nearest(builder.Crop(image, border_px), *scale));
  }
  if (pro) builder.Affine(x, {1 / kProFactor}, {-kProOffset / kProFactor});
}

}  // namespace

void BuildCunet(NetworkBuilder& builder) { BuildUnets(builder, /*reflects=*/false); }
void BuildCugan(NetworkBuilder& builder) { BuildUnets(builder, /*reflects=*/true); }

}  // namespace upscaled
