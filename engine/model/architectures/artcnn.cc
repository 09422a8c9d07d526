#include "engine/model/architectures/artcnn.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/luma.h"
#include "engine/model/architectures/shuffle_scale.h"

namespace upscaled {
namespace {

constexpr char kFirst[] = "conv0", kLast[] = "depth_to_space.upscale.0";

}  // namespace

bool RecogniseArtCnn(const TensorFile& file) {
  return file.Has("conv0.weight") && file.Has("depth_to_space.upscale.0.weight");
}

absl::StatusOr<int> ArtCnnScale(const TensorFile& file) {
  const TensorInfo* last = file.Find(absl::StrCat(kLast, ".weight"));
  const int64_t channels = last == nullptr || last->shape.empty() ? 0 : last->shape[0];
  return ScaleOfShuffle(channels, IsForLuma(file, kFirst) ? 1 : 3);
}

void BuildArtCnn(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = ArtCnnScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  const bool for_luma = IsForLuma(file, kFirst);
  const int image = builder.Input();
  const int features = builder.Conv(for_luma ? Luma(builder, image) : image, kFirst, {});
  const auto block = [](int index) { return absl::StrCat("res_block.", index); };
  int x = features, blocks = 0;
  for (; file.Has(block(blocks) + ".conv.0.0.weight"); ++blocks) {
    const std::string conv = block(blocks) + ".conv.";
    int y = builder.Conv(x, conv + "0.0", {.activation = Activation::kRelu});
    y = builder.Conv(y, conv + "1.0", {.activation = Activation::kRelu});
    x = builder.Add(builder.Conv(y, conv + "2", {}), x);
  }
  x = builder.Add(builder.Conv(x, block(blocks), {}), features);
  x = builder.PixelShuffle(builder.Conv(x, kLast, {}), *scale);
  if (for_luma) WithColour(builder, image, x, *scale);
}

}  // namespace upscaled
