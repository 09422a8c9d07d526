#include "engine/model/op.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/int_math.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/validate_errors.h"

namespace upscaled {
namespace {

int OwnChoice(const Layer&, int) { return 0; }

int64_t OnePerOutput(const Layer& layer) { return layer.out_channels; }

// The weights of a convolution; a fully connected layer is one of 1x1.
int64_t ConvWeights(const Layer& layer) {
  return int64_t{layer.out_channels} * layer.in_channels * layer.kernel_px * layer.kernel_px;
}

int64_t GroupedWeights(const Layer& layer) { return ConvWeights(layer) / layer.groups; }

int64_t FullyConnectedWeights(const Layer& layer) {
  return int64_t{layer.out_channels} * layer.in_channels;
}

double ConvMultiplyAdds(const Layer& layer, double pixels) {
  const double channels = double{1} * layer.in_channels * layer.out_channels;
  const double taps = double{1} * layer.kernel_px * layer.kernel_px;
  return channels * taps * pixels;
}

absl::Status CheckConv(const Layer& layer) {
  RETURN_IF_ERROR(CheckRange("kernel_px", layer.kernel_px, 1, kMaxKernelPx));
  RETURN_IF_ERROR(CheckRange("stride_px", layer.stride_px, 1, kMaxFactor));
  // Past the kernel there would be outputs without an input.
  return CheckRange("padding_px", layer.padding_px, 0, std::max(layer.kernel_px - 1, 0));
}

absl::Status CheckGroupedConv(const Layer& layer) {
  RETURN_IF_ERROR(CheckConv(layer));
  return CheckRange("groups", layer.groups, 1, kMaxChannels);
}

absl::Status CheckGroupedChannels(const Layer& layer) {
  for (const int channels : {layer.in_channels, layer.out_channels}) {
    if (channels % layer.groups == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("cannot share ", channels, " channels among ", layer.groups, " groups"));
  }
  return absl::OkStatus();
}

absl::Status CheckConvTranspose(const Layer& layer) {
  RETURN_IF_ERROR(CheckConv(layer));
  return CheckRange("stride_px", layer.stride_px, 1, std::min(layer.kernel_px, kMaxFactor));
}

absl::Status CheckFactor(const Layer& layer) {
  return CheckRange("factor", layer.factor, 1, kMaxFactor);
}

absl::Status CheckShuffledChannels(const Layer& layer) {
  if (layer.in_channels % (layer.factor * layer.factor) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot shuffle ", layer.in_channels,
                                                 " channels by ", layer.factor, "x", layer.factor));
}

absl::Status CheckSlice(const Layer& layer) {
  return CheckRange("first_channel", layer.first_channel, 0, kMaxChannels - 1);
}

absl::Status CheckSlicedChannels(const Layer& layer) {
  if (layer.first_channel + layer.out_channels <= layer.in_channels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("takes the channels ", layer.first_channel, "..",
                                                 layer.first_channel + layer.out_channels - 1,
                                                 " of ", layer.in_channels));
}

absl::Status CheckEpsilon(const Layer& layer) {
  if (std::isfinite(layer.epsilon) && layer.epsilon > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("epsilon is ", layer.epsilon, ", must be above 0"));
}

// Checks a kPixelNorm or a kGroupNorm.
absl::Status CheckNorm(const Layer& layer) {
  RETURN_IF_ERROR(CheckRange("groups", layer.groups, 1, kMaxChannels));
  return CheckEpsilon(layer);
}

absl::Status CheckCrop(const Layer& layer) {
  return CheckRange("crop_px", layer.crop_px, 0, kMaxPadPx);
}

// Sides are rounded up to multiples of `factor` first, at the right and the bottom.
absl::Status CheckPad(const Layer& layer) {
  RETURN_IF_ERROR(CheckRange("padding_px", layer.padding_px, 0, kMaxPadPx));
  RETURN_IF_ERROR(CheckRange("factor", layer.factor, 1, kMaxPeriodPx));
  if (std::isfinite(layer.pad_value)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("is filled with ", layer.pad_value));
}

absl::Status CheckSamples(const Layer& layer) {
  RETURN_IF_ERROR(CheckRange("groups", layer.groups, 1, kMaxChannels));
  return CheckFactor(layer);
}

absl::Status CheckHeads(const Layer& layer) {
  return CheckRange("groups", layer.groups, 1, kMaxChannels);
}

absl::Status CheckWindows(const Layer& layer) {
  RETURN_IF_ERROR(CheckHeads(layer));
  for (const WindowAxis& axis : {layer.window_x, layer.window_y}) {
    RETURN_IF_ERROR(CheckRange("window_px", axis.window_px, 1, kMaxWindowPx));
    RETURN_IF_ERROR(CheckRange("shift_px", axis.shift_px, 0, axis.window_px - 1));
  }
  RETURN_IF_ERROR(CheckRange("overlap_px", layer.overlap_px, 0, kMaxWindowPx));
  return CheckRange("factor", layer.factor, 1, kMaxWindowPx);
}

absl::Status CheckAttendedChannels(const Layer& layer) {
  if (layer.in_channels % (3 * layer.groups) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot share ", layer.in_channels,
                                                 " channels among the queries, keys and values of ",
                                                 layer.groups, " heads"));
}

int64_t QueriesOf(const Layer& layer) {
  return int64_t{layer.window_x.window_px} * layer.window_y.window_px;
}

int64_t KeysOf(const Layer& layer) {
  return int64_t{layer.window_x.window_px + 2 * layer.overlap_px} *
         (layer.window_y.window_px + 2 * layer.overlap_px);
}

int ThirdOfChannels(const Layer& layer, int) { return layer.in_channels / 3; }

// Products of each query channel with the keys of its head, and all squares.
int64_t ProductsOf(const Layer& layer) {
  const int64_t channels = layer.in_channels / 3;
  return channels * (channels / layer.groups) + 2 * channels;
}

int64_t ConvSide(const Layer& layer, int side) {
  return FloorDiv(side + 2 * layer.padding_px - layer.kernel_px, layer.stride_px) + 1;
}

double ConvDensity(const Layer& layer) { return 1.0 / (layer.stride_px * layer.stride_px); }

PixelRange ConvRange(const Layer& layer, Axis, PixelRange out, int) {
  return {out.first * layer.stride_px - layer.padding_px,
          out.last * layer.stride_px - layer.padding_px + layer.kernel_px - 1};
}

int64_t ScaledSide(const Layer& layer, int side) { return int64_t{side} * layer.factor; }

double ScaledDensity(const Layer& layer) { return layer.factor * layer.factor; }

PixelRange ScaledRange(const Layer& layer, Axis, PixelRange out, int) {
  return {out.first / layer.factor, out.last / layer.factor};
}

// Output centre o + 1/2 lies at (o + 1/2) / factor of the input.
PixelRange BilinearRange(const Layer& layer, Axis, PixelRange out, int) {
  const int f = layer.factor;
  return {FloorDiv(2 * out.first + 1 - f, 2 * f), FloorDiv(2 * out.last + 1 - f, 2 * f) + 1};
}

// A pixel at least, even where all of `out` lies in the padding. Reflected positions lie as far
// inside as they lay outside.
PixelRange PaddedRange(const Layer& layer, Axis, PixelRange out, int in_side) {
  const int last = in_side - 1;
  if (layer.pad_mode == PadMode::kWrap) return {0, last};
  PixelRange in{out.first - layer.padding_px, out.last - layer.padding_px};
  if (layer.pad_mode == PadMode::kReflect) {
    in = {std::min(in.first, 2 * last - in.last), std::max(in.last, -in.first)};
  }
  return {std::clamp(in.first, 0, last), std::clamp(in.last, 0, last)};
}

// Whole windows, and their keys' overlap.
PixelRange WindowRange(const Layer& layer, Axis axis, PixelRange out, int) {
  const WindowAxis& windows = axis == Axis::kX ? layer.window_x : layer.window_y;
  const auto begin = [&windows](int at) {
    return FloorDiv(at + windows.shift_px, windows.window_px) * windows.window_px -
           windows.shift_px;
  };
  return {begin(out.first) - layer.overlap_px,
          begin(out.last) + windows.window_px - 1 + layer.overlap_px};
}

int64_t OnePixel(const Layer&, int) { return 1; }

absl::Status CheckParts(const Layer& layer) {
  RETURN_IF_ERROR(CheckFactor(layer));
  RETURN_IF_ERROR(CheckWindows(layer));
  for (const WindowAxis& axis : {layer.window_x, layer.window_y}) {
    RETURN_IF_ERROR(CheckRange("shift_px", axis.shift_px, 0, 0));
  }
  return CheckRange("overlap_px", layer.overlap_px, 0, 0);
}

absl::Status CheckPool(const Layer& layer) {
  RETURN_IF_ERROR(CheckConv(layer));
  return CheckRange("padding_px", layer.padding_px, 0, 0);
}

// Products of each query with its head's keys, and of their softmax with the values.
double PartMultiplyAdds(const Layer& layer, double pixels) {
  return 2.0 * layer.out_channels * (layer.out_channels / layer.groups) * pixels;
}

bool HasGridParts(const Layer& layer) { return layer.factor > 1; }

PixelRange PartRange(const Layer& layer, Axis axis, PixelRange out, int in_side) {
  return HasGridParts(layer) ? PixelRange{0, in_side - 1} : WindowRange(layer, axis, out, in_side);
}

PixelRange AnyPixel(const Layer&, Axis, PixelRange, int in_side) { return {0, in_side - 1}; }

// No pixel if the layer cannot be cut into strips.
int64_t SideOfStrips(const Layer& layer, int side) { return side % layer.factor == 0 ? side : 0; }

int64_t PooledSide(const Layer& layer, int side) {
  return side < 1 ? 0 : std::max<int64_t>(FloorDiv(side - layer.kernel_px, layer.stride_px) + 1, 1);
}

constexpr Operation kInput{
    .name = "input", .min_inputs = 0, .max_inputs = 0, .channels = [](const Layer&, int) {
      return 3;
    }};
constexpr Operation kConv{.name = "conv",
                          .check = CheckConv,
                          .channels = OwnChoice,
                          .weights = ConvWeights,
                          .biases = OnePerOutput,
                          .output_side = ConvSide,
                          .density = ConvDensity,
                          .input_range = ConvRange,
                          .multiply_adds = ConvMultiplyAdds};
constexpr Operation kGroupedConv{.name = "grouped conv",
                                 .check = CheckGroupedConv,
                                 .check_channels = CheckGroupedChannels,
                                 .channels = OwnChoice,
                                 .weights = GroupedWeights,
                                 .biases = OnePerOutput,
                                 .output_side = ConvSide,
                                 .density = ConvDensity,
                                 .input_range = ConvRange,
                                 .multiply_adds = [](const Layer& layer, double pixels) {
                                   return ConvMultiplyAdds(layer, pixels) / layer.groups;
                                 }};
constexpr Operation kConvTranspose{
    .name = "transposed conv",
    .check = CheckConvTranspose,
    .channels = OwnChoice,
    .weights = ConvWeights,
    .biases = OnePerOutput,
    .output_side = [](const Layer& layer, int side) -> int64_t {
      return int64_t{side - 1} * layer.stride_px + layer.kernel_px - 2 * layer.padding_px;
    },
    .density = [](const Layer& layer) -> double { return layer.stride_px * layer.stride_px; },
    .input_range =  // input i reaches outputs i * stride - padding + [0, kernel)
    [](const Layer& layer, Axis, PixelRange out, int) {
      return PixelRange{
          CeilDiv(out.first + layer.padding_px - layer.kernel_px + 1, layer.stride_px),
          FloorDiv(out.last + layer.padding_px, layer.stride_px)};
    },
    .multiply_adds =  // each output pixel meets every stride-th tap of a row and a column
    [](const Layer& layer, double pixels) {
      return ConvMultiplyAdds(layer, pixels) / (layer.stride_px * layer.stride_px);
    }};
constexpr Operation kPixelShuffle{
    .name = "pixel shuffle",
    .check = CheckFactor,
    .check_channels = CheckShuffledChannels,
    .channels = [](const Layer& layer,
                   int) { return layer.in_channels / (layer.factor * layer.factor); },
    .output_side = ScaledSide,
    .density = ScaledDensity,
    .input_range = ScaledRange};
constexpr Operation kResizeNearest{.name = "nearest resize",
                                   .check = CheckFactor,
                                   .output_side = ScaledSide,
                                   .density = ScaledDensity,
                                   .input_range = ScaledRange};
constexpr Operation kResizeBilinear{.name = "bilinear resize",
                                    .check = CheckFactor,
                                    .output_side = ScaledSide,
                                    .density = ScaledDensity,
                                    .input_range = BilinearRange};
constexpr Operation kAdd{
    .name = "add", .min_inputs = 2, .max_inputs = 2, .equal_channels = true, .pointwise = true};
constexpr Operation kMul{.name = "mul",
                         .min_inputs = 2,
                         .max_inputs = 2,
                         .equal_channels = true,
                         .scales_per_image = true,
                         .pointwise = true};
constexpr Operation kConcat{.name = "concat",
                            .max_inputs = kMaxConcatInputs,
                            .pointwise = true,
                            .channels = [](const Layer&, int given) { return given; }};
constexpr Operation kSlice{.name = "slice",
                           .pointwise = true,
                           .check = CheckSlice,
                           .check_channels = CheckSlicedChannels,
                           .channels = OwnChoice};
constexpr Operation kCrop{
    .name = "crop",
    .check = CheckCrop,
    .output_side = [](const Layer& layer, int side) -> int64_t { return side - 2 * layer.crop_px; },
    .input_range =
        [](const Layer& layer, Axis, PixelRange out, int) {
          return PixelRange{out.first + layer.crop_px, out.last + layer.crop_px};
        }};
constexpr Operation kPad{
    .name = "pad",
    .check = CheckPad,
    .output_side = [](const Layer& layer, int side) -> int64_t {
      return int64_t{RoundUp(side, layer.factor)} + 2 * layer.padding_px;
    },
    .input_range = PaddedRange,
    .reads_anywhere = [](const Layer& layer) { return layer.pad_mode == PadMode::kWrap; }};
constexpr Operation kAffine{
    .name = "affine", .pointwise = true, .weights = OnePerOutput, .biases = OnePerOutput};
constexpr Operation kPixelNorm{.name = "pixel norm",
                               .pointwise = true,
                               .check = CheckNorm,
                               .check_channels = CheckGroupedChannels,
                               .weights = OnePerOutput,
                               .biases = OnePerOutput};
constexpr Operation kGroupNorm{
    .name = "group norm",
    .min_inputs = 2,
    .max_inputs = 2,
    .takes_moments = true,
    .pointwise = true,
    .check = CheckNorm,
    .check_channels = CheckGroupedChannels,
    .moments = [](const Layer& layer) { return int64_t{2} * layer.in_channels; },
    .weights = OnePerOutput,
    .biases = OnePerOutput};
constexpr Operation kWindowAttention{
    .name = "window attention",
    .exact_only = true,
    .check = CheckWindows,
    .check_channels = CheckAttendedChannels,
    .channels = ThirdOfChannels,
    .weights = [](const Layer& layer) { return layer.groups * QueriesOf(layer) * KeysOf(layer); },
    .input_range = WindowRange,
    .multiply_adds =  // each channel of a pixel meets the window's keys, and then its values
    [](const Layer& layer, double pixels) {
      return 2.0 * layer.out_channels * static_cast<double>(KeysOf(layer)) * pixels;
    }};
constexpr Operation kChannelProducts{
    .name = "channel products",
    .exact_only = true,
    .pointwise = true,
    .check = CheckHeads,
    .check_channels = CheckAttendedChannels,
    .channels = [](const Layer& layer,
                   int) { return static_cast<int>(std::min<int64_t>(ProductsOf(layer), 1 << 30)); },
    .multiply_adds = [](const Layer& layer,
                        double pixels) { return static_cast<double>(ProductsOf(layer)) * pixels; }};
constexpr Operation kChannelAttention{
    .name = "channel attention",
    .min_inputs = 2,
    .max_inputs = 2,
    .takes_moments = true,
    .exact_only = true,
    .pointwise = true,
    .check = CheckHeads,
    .check_channels = CheckAttendedChannels,
    .channels = ThirdOfChannels,
    .moments = ProductsOf,
    .weights = [](const Layer& layer) { return int64_t{layer.groups}; },
    .multiply_adds =
        [](const Layer& layer, double pixels) {
          return double{1} * layer.out_channels * (layer.out_channels / layer.groups) * pixels;
        }};
constexpr Operation kSample{
    .name = "samples",
    .min_inputs = 2,
    .max_inputs = 2,
    .exact_only = true,
    .second_as_first = true,
    .check = CheckSamples,
    .check_channels = CheckGroupedChannels,
    .second_channels = [](const Layer& layer) -> int64_t {
      return 2 * layer.groups * layer.factor * layer.factor;
    },
    .output_side = ScaledSide,
    .density = ScaledDensity,
    .input_range = AnyPixel,
    .reads_anywhere = [](const Layer&) { return true; },
    .multiply_adds = [](const Layer& layer,
                        double pixels) { return 4.0 * layer.out_channels * pixels; }};
constexpr Operation kPartAttention{
    .name = "attention of parts",
    .exact_only = true,
    .check = CheckParts,
    .check_channels = CheckAttendedChannels,
    .channels = ThirdOfChannels,
    .weights = [](const Layer& layer) { return int64_t{layer.groups}; },
    .input_range = PartRange,
    .reads_anywhere = HasGridParts,
    .multiply_adds = PartMultiplyAdds};
constexpr Operation kGridToWindows{.name = "grid to windows",
                                   .exact_only = true,
                                   .check = CheckFactor,
                                   .output_side = SideOfStrips,
                                   .input_range = AnyPixel,
                                   .reads_anywhere = [](const Layer&) { return true; }};
constexpr Operation kWindowsToGrid{.name = "windows to grid",
                                   .exact_only = true,
                                   .check = CheckFactor,
                                   .output_side = SideOfStrips,
                                   .input_range = AnyPixel,
                                   .reads_anywhere = [](const Layer&) { return true; }};
constexpr Operation kMaxPool{.name = "max pool",
                             .exact_only = true,
                             .check = CheckPool,
                             .output_side = PooledSide,
                             .density = ConvDensity,
                             .input_range = ConvRange};
constexpr Operation kAddResized{
    .name = "add resized",
    .min_inputs = 2,
    .max_inputs = 2,
    .equal_channels = true,
    .exact_only = true,
    .resizes_second = true,
    .reads_anywhere = [](const Layer&) { return true; },
    .multiply_adds = [](const Layer& layer,
                        double pixels) { return 4.0 * layer.out_channels * pixels; }};
constexpr Operation kGlobalAveragePool{.name = "global average pool",
                                       .output_side = OnePixel,
                                       .density = [](const Layer&) { return 0.0; }};
constexpr Operation kFullyConnected{.name = "fully connected",
                                    .only_per_image = true,
                                    .channels = OwnChoice,
                                    .weights = FullyConnectedWeights,
                                    .biases = OnePerOutput,
                                    .output_side = OnePixel,
                                    .multiply_adds = [](const Layer& layer, double pixels) {
                                      return double{1} * layer.in_channels * layer.out_channels *
                                             pixels;
                                    }};
constexpr Operation kActivation{.name = "activation", .pointwise = true};

}  // namespace

const Operation& OperationOf(Op op) {
  switch (op) {
    case Op::kInput:
      return kInput;
    case Op::kConv:
      return kConv;
    case Op::kGroupedConv:
      return kGroupedConv;
    case Op::kConvTranspose:
      return kConvTranspose;
    case Op::kPixelShuffle:
      return kPixelShuffle;
    case Op::kResizeNearest:
      return kResizeNearest;
    case Op::kResizeBilinear:
      return kResizeBilinear;
    case Op::kAdd:
      return kAdd;
    case Op::kMul:
      return kMul;
    case Op::kConcat:
      return kConcat;
    case Op::kSlice:
      return kSlice;
    case Op::kPixelNorm:
      return kPixelNorm;
    case Op::kGroupNorm:
      return kGroupNorm;
    case Op::kCrop:
      return kCrop;
    case Op::kPad:
      return kPad;
    case Op::kAffine:
      return kAffine;
    case Op::kWindowAttention:
      return kWindowAttention;
    case Op::kChannelProducts:
      return kChannelProducts;
    case Op::kChannelAttention:
      return kChannelAttention;
    case Op::kSample:
      return kSample;
    case Op::kPartAttention:
      return kPartAttention;
    case Op::kGridToWindows:
      return kGridToWindows;
    case Op::kWindowsToGrid:
      return kWindowsToGrid;
    case Op::kMaxPool:
      return kMaxPool;
    case Op::kAddResized:
      return kAddResized;
    case Op::kGlobalAveragePool:
      return kGlobalAveragePool;
    case Op::kFullyConnected:
      return kFullyConnected;
    case Op::kActivation:
      return kActivation;
  }
  return kInput;
}

bool IsExactOnly(const Layer& layer) {
  return OperationOf(layer.op).exact_only || (layer.op == Op::kPixelNorm && layer.groups > 1) ||
         (layer.op == Op::kPad && layer.pad_mode == PadMode::kWrap);
}

bool ReadsAnywhere(const Network& network) {
  return std::ranges::any_of(network.layers, [](const Layer& layer) {
    return OperationOf(layer.op).reads_anywhere(layer);
  });
}

}  // namespace upscaled
