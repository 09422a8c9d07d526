#include "engine/model/architectures/trained_conv.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

// Limits of a convolution's features on either side (SPAN has up to 52, RTMoSR 128), and of the
// factor inside (twice). The product of the weights then takes less than a second.
constexpr int64_t kMaxFeatures = 128, kMaxGain = 4;

// A matrix of doubles, of convolutions to multiply with each other.
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

// Returns false if the builder has failed.
bool ReadParts(NetworkBuilder& builder, std::string_view name, TrainedConv& conv) {
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

// The one 3x3 convolution equal to `trained`, exactly: the image is padded with zeros before
// conv.0, so its bias reaches the border like any other place.
void Collapse(const TrainedConv& trained, Layer& conv) {
  const int64_t in = trained.in, out = trained.out;
  // [out][middle * taps]
  const Matrix late =
      Multiply(Matrix::Of(trained.third, out), Matrix::Of(trained.second, trained.wide));
  conv.weights.resize(static_cast<size_t>(out) * in * kTaps);
  conv.bias.resize(out);
  for (int64_t o = 0; o < out; ++o) {
    double bias = trained.third_bias[o] + trained.skip_bias[o];
    for (int64_t w = 0; w < trained.wide; ++w) {
      bias += trained.third[o * trained.wide + w] * double{trained.second_bias[w]};
    }
    std::vector<double> row(in * kTaps);
    AddInnerConv(&late.values[o * late.columns], trained.first, trained.first_bias, row, bias);
    for (int64_t i = 0; i < in; ++i) row[i * kTaps + kTaps / 2] += trained.skip[o * in + i];
    std::copy(row.begin(), row.end(), conv.weights.begin() + o * in * kTaps);
    conv.bias[o] = static_cast<float>(bias);
  }
}

}  // namespace

Layer ReadTrainedConv(NetworkBuilder& builder, std::string_view name) {
  Layer conv{.name = std::string(name), .kernel_px = 3, .padding_px = 1};
  TrainedConv trained;
  if (ReadParts(builder, name, trained)) Collapse(trained, conv);
  return conv;
}

}  // namespace upscaled
