#include "engine/train/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "engine/train/activation.h"
#include "engine/train/column_conv.h"
#include "engine/train/conv.h"
#include "engine/train/gating.h"
#include "engine/train/rearranging.h"

namespace upscaled::train {
namespace {

struct Case {
  std::string name;
  std::function<std::unique_ptr<Step<double>>()> make;
  int sources, src_channels, dst_channels;
  size_t parameters = 0;
  bool second_has_one_pixel = false;  // of each image
};

Case ConvCase(std::string name, const ConvDevice& device, int kernel_px, int padding_px) {
  constexpr int kIn = 5, kOut = 3;
  const Layer layer{.op = Op::kConv,
                    .out_channels = kOut,
                    .in_channels = kIn,
                    .kernel_px = kernel_px,
                    .padding_px = padding_px};
  return {std::move(name),
          [=, make_kernel = device.of_doubles] {
            return std::make_unique<Conv<double>>(layer, make_kernel);
          },
          1,
          kIn,
          kOut,
          static_cast<size_t>(kernel_px * kernel_px * kIn * kOut + kOut)};
}

Case ColumnConvCase(std::string name, Op op, int kernel_px, int stride_px, int padding_px) {
  constexpr int kIn = 5, kOut = 3;
  const Layer layer{.op = op,
                    .out_channels = kOut,
                    .in_channels = kIn,
                    .kernel_px = kernel_px,
                    .stride_px = stride_px,
                    .padding_px = padding_px};
  return {std::move(name),
          [=] { return std::make_unique<ColumnConv<double>>(layer); },
          1,
          kIn,
          kOut,
          static_cast<size_t>(kernel_px * kernel_px * kIn * kOut + kOut)};
}

Case RearrangeCase(std::string name, Rearrangement how, int src_channels, int dst_channels) {
  return {std::move(name), [=] { return std::make_unique<Rearrange<double>>(how); }, 1,
          src_channels, dst_channels};
}

std::vector<Case> Cases(const ConvDevice& device) {
  return {ConvCase("3x3 conv", device, 3, 0),
          ConvCase("3x3 conv, padded", device, 3, 1),
          ConvCase("2x2 conv", device, 2, 0),
          ConvCase("1x1 conv", device, 1, 0),
          ColumnConvCase("5x5 conv, padded", Op::kConv, 5, 1, 2),
          ColumnConvCase("3x3 conv of stride 2", Op::kConv, 3, 2, 1),
          ColumnConvCase("4x4 transposed conv of stride 2", Op::kConvTranspose, 4, 2, 3),
          ColumnConvCase("2x2 transposed conv of stride 2", Op::kConvTranspose, 2, 2, 0),
          {"leaky relu", [] { return std::make_unique<LeakyRelu<double>>(0.1); }, 1, 4, 4},
          {"relu", [] { return std::make_unique<LeakyRelu<double>>(0.0); }, 1, 4, 4},
          {"prelu", [] { return std::make_unique<PRelu<double>>(); }, 1, 4, 4, 4},
          {"sigmoid", [] { return std::make_unique<Sigmoid<double>>(); }, 1, 4, 4},
          {"global average pool", [] { return std::make_unique<GlobalAveragePool<double>>(); }, 1,
           4, 4},
          {"product", [] { return std::make_unique<Multiply<double>>(); }, 2, 4, 4},
          {"product with a pixel", [] { return std::make_unique<Multiply<double>>(); }, 2, 4, 4, 0,
           true},
          {"add", [] { return std::make_unique<Add<double>>(); }, 2, 4, 4},
          RearrangeCase("crop", {.crop_px = 2}, 4, 4),
          RearrangeCase("nearest resize", {.factor = 3}, 4, 4),
          RearrangeCase("pixel shuffle", {.factor = 2, .shuffles = true}, 8, 2)};
}

std::vector<size_t> AllPlaces(size_t count) {
  std::vector<size_t> places(count);
  std::iota(places.begin(), places.end(), size_t{0});
  return places;
}

// Whether the values between the images have stayed zero.
bool IsZeroBetweenPixels(const Tensor<double>& tensor) {
  LineVector<double> rest = tensor.values();
  for (const size_t pixel : PixelsOf(tensor)) rest[pixel] = 0;
  return std::all_of(rest.begin(), rest.end(), [](double value) { return value == 0; });
}

double ErrorOn(const Case& tested, const Grid& grid, std::mt19937_64& random) {
  const std::unique_ptr<Step<double>> step = tested.make();
  std::uniform_real_distribution<double> number(-1, 1);
  std::vector<double> params(tested.parameters), d_params(tested.parameters);
  for (double& value : params) value = number(random);
  std::vector<Tensor<double>> src(tested.sources, {grid, tested.src_channels});
  if (tested.second_has_one_pixel) src[1] = {{grid.images, {1, 1}}, tested.src_channels};
  std::vector<Tensor<double>> d_src = src;
  std::vector<const Tensor<double>*> sources;
  std::vector<SourceGradient<double>> d_sources;
  for (size_t i = 0; i < src.size(); ++i) {
    FillPixels(src[i], random);
    sources.push_back(&src[i]);
    d_sources.push_back({.tensor = &d_src[i]});
  }
  Tensor<double> dst({grid.images, step->OutputSize(grid.size)}, tested.dst_channels);
  Tensor<double> d_dst = dst;
  FillPixels(d_dst, random);
  const auto loss = [&] {
    step->Begin(params.data());
    step->Forward(params.data(), sources, dst);
    return std::inner_product(dst.values().begin(), dst.values().end(), d_dst.values().begin(),
                              0.0);
  };
  loss();
  step->Backward(params.data(), sources, dst, d_dst, d_sources, d_params.data());
  step->End(d_params.data());
  double error = 0;
  for (size_t i = 0; i < src.size(); ++i) {
    if (!IsZeroBetweenPixels(d_src[i])) return std::numeric_limits<double>::infinity();
    error = std::max(error, DerivativeError(loss, src[i].values(), PixelsOf(src[i]),
                                            d_src[i].values(), {}, random));
  }
  if (params.empty()) return error;
  return std::max(error,
                  DerivativeError(loss, params, AllPlaces(params.size()), d_params, {}, random));
}

}  // namespace

std::vector<size_t> PixelsOf(const Tensor<double>& tensor) {
  std::vector<size_t> places;
  for (int image = 0; image < tensor.grid().images; ++image) {
    for (int y = 0; y < tensor.grid().size.height; ++y) {
      const size_t first = tensor.line(tensor.grid().Line(image, y)) - tensor.values().data();
      for (int x = 0; x < tensor.grid().size.width; ++x) {
        for (int c = 0; c < tensor.channels(); ++c)
          places.push_back(first + x * tensor.stride() + c);
      }
    }
  }
  return places;
}

void FillPixels(Tensor<double>& tensor, std::mt19937_64& random) {
  std::uniform_real_distribution<double> number(0.001, 1);
  for (const size_t place : PixelsOf(tensor)) {
    tensor.values()[place] = random() % 2 == 0 ? number(random) : -number(random);
  }
}

double DerivativeError(const std::function<double()>& function, std::span<double> values,
                       const std::vector<size_t>& places, std::span<const double> derivatives,
                       const DerivativeCheck& check, std::mt19937_64& random) {
  double wrong_by = 0, largest = 0;
  for (int i = 0; i < check.count; ++i) {
    const size_t at = places[random() % places.size()];
    const double value = values[at];
    values[at] = value + check.step;
    const double above = function();
    values[at] = value - check.step;
    const double below = function();
    values[at] = value;
    const double difference = (above - below) / (2 * check.step);
    wrong_by = std::max(wrong_by, std::abs(difference - derivatives[at]));
    largest = std::max(largest, std::abs(difference));
  }
  return largest == 0 ? std::numeric_limits<double>::infinity() : wrong_by / largest;
}

std::vector<StepError> CheckSteps(uint64_t seed, const ConvDevice& device) {
  std::mt19937_64 random(seed);
  std::vector<StepError> errors;
  for (const Case& tested : Cases(device)) {
    double error = 0;
    // Grids with several tiles of columns.
    for (const Grid& grid : {Grid{3, {7, 6}}, Grid{2, {25, 40}}, Grid{1, {800, 5}}}) {
      error = std::max(error, ErrorOn(tested, grid, random));
    }
    errors.push_back({tested.name, error});
  }
  return errors;
}

}  // namespace upscaled::train
