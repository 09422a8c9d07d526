#include "engine/model/architectures/span.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/dysample.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/architectures/trained_conv.h"

namespace upscaled {
namespace {

constexpr int kBlocks = 6;
// The training's images; files trained without carry a mark.
constexpr float kMean[] = {0.4488f, 0.4371f, 0.4040f};
constexpr float kRange = 255;
constexpr char kNoNormMark[] = "no_norm";

int AddConv(NetworkBuilder& builder, int input, std::string_view name,
            Activation activation = Activation::kNone) {
  Layer conv = ReadTrainedConv(builder, name);
  conv.activation = activation;
  return builder.Conv(input, std::move(conv));
}

struct BlockResults {
  int first;  // of the first convolution, with its activation: PyTorch's code applies it in place
  int last;
};

BlockResults AddBlock(NetworkBuilder& builder, int x, const std::string& block,
                      Activation activation) {
  const int first = AddConv(builder, x, block + ".c1_r", activation);
  const int second = AddConv(builder, first, block + ".c2_r", activation);
  const int third = AddConv(builder, second, block + ".c3_r");
  const int attention =
      builder.Affine(builder.Activate(third, Activation::kSigmoid), {1.0f}, {-0.5f});
  return {first, builder.Mul(builder.Add(third, x), attention)};
}

}  // namespace

bool RecogniseSpan(const TensorFile& file) {
  return file.Find("conv_1.sk.weight") != nullptr &&
         file.Find("block_1.c1_r.sk.weight") != nullptr &&
         file.Find("upsampler.0.weight") != nullptr;
}

absl::StatusOr<int> SpanScale(const TensorFile& file) {
  const TensorInfo* last = file.Find("upsampler.0.weight");
  return ScaleOfShuffle(last == nullptr || last->shape.empty() ? 0 : last->shape[0]);
}

void BuildSpan(NetworkBuilder& builder) {
  const absl::StatusOr<int> scale = SpanScale(builder.file());
  if (!scale.ok()) return builder.Fail(scale.status());
  int image = builder.Input();
  builder.Ignore(kNoNormMark);
  if (!builder.file().Has(kNoNormMark)) {
    image = builder.Affine(image, {kRange},
                           {-kMean[0] * kRange, -kMean[1] * kRange, -kMean[2] * kRange});
  }
  const int features = AddConv(builder, image, "conv_1");
  BlockResults results{features, features};
  int first_block = features;
  for (int i = 1; i <= kBlocks; ++i) {
    results = AddBlock(builder, results.last, absl::StrCat("block_", i), Activation::kSilu);
    if (i == 1) first_block = results.last;
  }
  const int deep = AddConv(builder, results.last, "conv_2");
  int x = builder.Concat({features, deep, first_block, results.first});
  x = builder.Conv(builder.Conv(x, "conv_cat", {}), "upsampler.0", {});
  builder.PixelShuffle(x, *scale);
}

namespace {

constexpr char kSpanSampleEnd[] = "upsampler";

// One stage of SPANPlus: a SPAN without its ends.
int AddStage(NetworkBuilder& builder, int x, const std::string& stage) {
  const auto add = [&](int input, const std::string& block) {
    return AddBlock(builder, input, stage + block, Activation::kMish);
  };
  const int first = add(x, "block_1").last;
  int deep = first;
  for (int i = 0; builder.file().Has(absl::StrCat(stage, "block_n.", i, ".c1_r.sk.weight")); ++i) {
    deep = add(deep, absl::StrCat("block_n.", i)).last;
  }
  const BlockResults end = add(deep, "block_end");
  const int last = AddConv(builder, end.last, stage + "conv_2");
  return builder.Conv(builder.Concat({x, last, first, end.first}), stage + "conv_cat", {});
}

}  // namespace

bool RecogniseSpanPlus(const TensorFile& file) {
  return file.Has("feats.0.sk.weight") && file.Has("feats.1.block_1.c1_r.sk.weight") &&
         (file.Has("upsampler.0.weight") || file.Has("upsampler.weight") ||
          HasDySample(file, kSpanSampleEnd));
}

absl::StatusOr<int> SpanPlusScale(const TensorFile& file) {
  if (file.Has("upsampler.weight")) return 1;
  if (HasDySample(file, kSpanSampleEnd)) return DySampleScale(file, kSpanSampleEnd);
  return SpanScale(file);
}

void BuildSpanPlus(NetworkBuilder& builder) {
  const TensorFile& file = builder.file();
  const absl::StatusOr<int> scale = SpanPlusScale(file);
  if (!scale.ok()) return builder.Fail(scale.status());
  int x = AddConv(builder, builder.Input(), "feats.0");
  const auto stage = [](int index) { return absl::StrCat("feats.", index, "."); };
  for (int i = 1; builder.ok() && file.Has(stage(i) + "block_1.c1_r.sk.weight"); ++i) {
    x = AddStage(builder, x, stage(i));
  }
  if (HasDySample(file, kSpanSampleEnd)) {
    AddDySample(builder, x, kSpanSampleEnd);
    return;
  }
  x = builder.Conv(x, file.Has("upsampler.weight") ? "upsampler" : "upsampler.0", {});
  builder.PixelShuffle(x, *scale);
}

}  // namespace upscaled
