#include "engine/model/architectures/luma.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/model/limits.h"

namespace upscaled {
namespace {

constexpr float kBt709[] = {0.2126f, 0.7152f, 0.0722f};
constexpr int kRgb = 3;

int Mix(NetworkBuilder& builder, int input, const char* name, std::vector<float> weights,
        int outputs) {
  return builder.Conv(
      input,
      {.name = name, .weights = std::move(weights), .bias = std::vector<float>(outputs, 0.0f)});
}

// Keys's cubic kernel with a = -1/2, at a distance in source pixels.
double CatmullRom(double distance) {
  const double t = std::abs(distance);
  if (t < 1) return (1.5 * t - 2.5) * t * t + 1;
  return t < 2 ? ((-0.5 * t + 2.5) * t - 4) * t + 2 : 0;
}

// Half-pixel centres, edges repeated: a transposed convolution of the image with a wider border.
// Each source pixel reaches 2 to either side: (4 * factor) results.
int ResizeCatmullRom(NetworkBuilder& builder, int input, int factor) {
  if (factor == 1) return input;
  constexpr int kReachPx = 2;
  const int padding_px = 3 * factor / 2, kernel_px = 2 * padding_px + factor;
  if (kernel_px > kMaxKernelPx) {
    builder.Fail(absl::UnimplementedError(
        absl::StrCat("colour beside luma is not resized by ", factor, ", only by 1..7")));
    return 0;
  }
  std::vector<double> taps(kernel_px);
  for (int k = 0; k < kernel_px; ++k) {
    taps[k] = CatmullRom((k - padding_px + 0.5) / factor - 0.5);
  }
  Layer layer{.name = "catmull-rom resize",
              .kernel_px = kernel_px,
              .stride_px = factor,
              .padding_px = padding_px};
  layer.bias.assign(kRgb, 0.0f);
  for (int i = 0; i < kRgb * kRgb; ++i) {
    const bool same = i / kRgb == i % kRgb;
    for (const double y : taps) {
      for (const double x : taps) layer.weights.push_back(same ? static_cast<float>(y * x) : 0.0f);
    }
  }
  const int padded = builder.Pad(input, kReachPx, PadMode::kReplicate);
  return builder.Crop(builder.ConvTranspose(padded, std::move(layer)), kReachPx * factor);
}

}  // namespace

bool IsForLuma(const TensorFile& file, std::string_view name) {
  const TensorInfo* weight = file.Find(absl::StrCat(ToAbsl(name), ".weight"));
  return weight != nullptr && weight->shape.size() == 4 && weight->shape[1] == 1;
}

int Luma(NetworkBuilder& builder, int image) {
  builder.SetInputChannels(1);
  return Mix(builder, image, "luma", {std::begin(kBt709), std::end(kBt709)}, 1);
}

int WithColour(NetworkBuilder& builder, int image, int luma, int scale) {
  std::vector<float> without_luma;
  for (int out = 0; out < kRgb; ++out) {
    for (int in = 0; in < kRgb; ++in) {
      without_luma.push_back((in == out ? 1.0f : 0.0f) - kBt709[in]);
    }
  }
  const int colour = Mix(builder, image, "colour", std::move(without_luma), kRgb);
  const int grey = Mix(builder, luma, "grey", std::vector<float>(kRgb, 1.0f), kRgb);
  return builder.Add(grey, ResizeCatmullRom(builder, colour, scale));
}

}  // namespace upscaled
