#include "engine/model/architectures/span.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/dysample.h"
#include "engine/model/architectures/shuffle_scale.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

constexpr int kBlocks = 6;
constexpr int kTaps = 9;  // of a 3x3 kernel
// Limits of the features that a convolution takes or gives (48, 52), and of how many times more
// there are inside (twice): what is multiplied out here stays within a second.
constexpr int64_t kMaxFeatures = 96, kMaxGain = 4;
// The training's images; files that were trained without carry a mark.
constexpr float kMean[] = {0.4488f, 0.4371f, 0.4040f};
constexpr float kRange = 255;
constexpr char kNoNormMark[] = "no_norm";

// A matrix of doubles, of convolutions that are multiplied with each other.
struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values;  // [rows][columns]

  static Matrix Of(const std::vector<float>& values, size_t rows) {
    return {rows, values.size() / rows, {values.begin(), values.end()}};
  }
  double operator()(size_t row, size_t column) const { return values[row * columns + column]; }
};

Matrix Multiply(const Matrix& a, const Matrix& b) {
  Matrix product{a.rows, b.columns, std::vector<double>(a.rows * b.columns)};
  for (size_t i = 0; i < a.rows; ++i) {
    for (size_t k = 0; k < a.columns; ++k) {
      for (size_t j = 0; j < b.columns; ++j) {
        product.values[i * b.columns + j] += a(i, k) * b(k, j);
      }
    }
  }
  return product;
}

// A convolution as it was trained: conv.2 (1x1) of conv.1 (3x3) of conv.0 (1x1), plus sk (1x1).
struct TrainedConv {
  int64_t in = 0, middle = 0, wide = 0, out = 0;  // channels
  std::vector<float> first, first_bias, second, second_bias, third, third_bias, skip, skip_bias;
};

// False: the builder has failed.
bool ReadTrainedConv(NetworkBuilder& builder, std::string_view name, TrainedConv& conv) {
  const std::string prefix = std::string(name) + ".";
  builder.Ignore(prefix + "eval_conv.");
  const auto shape = [&](const char* part) {
    return builder.Shape(absl::StrCat(prefix, part, ".weight"), 4);
  };
  const int64_t in = shape("conv.0")[1], middle = shape("conv.0")[0];
  const int64_t wide = shape("conv.1")[0], out = shape("conv.2")[0];
  const bool sound = in >= 1 && in <= kMaxFeatures && out >= 1 && out <= kMaxFeatures &&
                     middle >= 1 && middle <= kMaxGain * in && wide >= 1 && wide <= kMaxGain * out;
  if (!sound) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        Quote(name), " goes from ", in, " channels over ", middle, " and ", wide, " to ", out,
        ", must be 1..", kMaxFeatures, " outside and up to ", kMaxGain, " times that inside")));
    return false;
  }
  conv = {.in = in, .middle = middle, .wide = wide, .out = out};
  conv.first = builder.Read(prefix + "conv.0.weight", {middle, in, 1, 1});
  conv.first_bias = builder.Read(prefix + "conv.0.bias", {middle});
  conv.second = builder.Read(prefix + "conv.1.weight", {wide, middle, 3, 3});
  conv.second_bias = builder.Read(prefix + "conv.1.bias", {wide});
  conv.third = builder.Read(prefix + "conv.2.weight", {out, wide, 1, 1});
  conv.third_bias = builder.Read(prefix + "conv.2.bias", {out});
  conv.skip = builder.Read(prefix + "sk.weight", {out, in, 1, 1});
  conv.skip_bias = builder.Read(prefix + "sk.bias", {out});
  return builder.ok();
}

// The one 3x3 convolution that `trained` is, exactly: the image is padded with zeros before conv.0,
// so that its bias reaches the border like any other place.
void Collapse(const TrainedConv& trained, Layer& conv) {
  const int64_t in = trained.in, out = trained.out;
  // [out][middle * taps], then for each tap [out][in].
  const Matrix late =
      Multiply(Matrix::Of(trained.third, out), Matrix::Of(trained.second, trained.wide));
  const Matrix early = Matrix::Of(trained.first, trained.middle);
  conv.weights.resize(static_cast<size_t>(out) * in * kTaps);
  conv.bias.resize(out);
  for (int64_t o = 0; o < out; ++o) {
    double bias = trained.third_bias[o] + trained.skip_bias[o];
    for (int64_t w = 0; w < trained.wide; ++w) {
      bias += trained.third[o * trained.wide + w] * double{trained.second_bias[w]};
    }
    std::vector<double> row(in * kTaps);
    for (int64_t m = 0; m < trained.middle; ++m) {
      for (int tap = 0; tap < kTaps; ++tap) {
        const double weight = late(o, m * kTaps + tap);
        bias += weight * trained.first_bias[m];
        for (int64_t i = 0; i < in; ++i) row[i * kTaps + tap] += weight * early(m, i);
      }
    }
    for (int64_t i = 0; i < in; ++i) row[i * kTaps + kTaps / 2] += trained.skip[o * in + i];
    std::copy(row.begin(), row.end(), conv.weights.begin() + o * in * kTaps);
    conv.bias[o] = static_cast<float>(bias);
  }
}

// NAME.eval_conv holds what the training made of NAME's convolutions once; it is left aside.
int AddConv(NetworkBuilder& builder, int input, std::string_view name,
            Activation activation = Activation::kNone) {
  TrainedConv trained;
  if (!ReadTrainedConv(builder, name, trained)) return 0;
  Layer conv{.name = std::string(name), .kernel_px = 3, .padding_px = 1, .activation = activation};
  Collapse(trained, conv);
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
