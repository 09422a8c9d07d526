#include "tests/bench/onednn_convolution.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/string_view.h"

namespace upscaled::bench {
namespace {

using dnnl::memory;
using Dims = memory::dims;
using Type = memory::data_type;
using Layout = memory::format_tag;

memory::desc AnyLayout(const Dims& dims, Type type) { return {dims, type, Layout::any}; }

dnnl::primitive_attr AttributesOf(const Layer& layer, OnednnVariant variant) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::library);
  if (variant == OnednnVariant::kInt8) attributes.set_output_scales(0, {1.0f / 1024});
  if (layer.activation != Activation::kNone) {
    // One slope stands for all channels' slopes, at a lower cost than oneDNN's own PReLU; its
    // Winograd kernels fuse none but 0.
    const bool plain = layer.slope.empty() || variant == OnednnVariant::kWinograd;
    dnnl::post_ops post;
    post.append_eltwise(1, dnnl::algorithm::eltwise_relu, plain ? 0 : layer.slope[0], 0);
    attributes.set_post_ops(post);
  }
  return attributes;
}

// A transposed convolution of stride s as one with the s x s phases of its output as channels, from
// the same number of weights: oneDNN's own takes several times as long. The weights keep their
// order, so its values mean nothing.
Layer PhasesAsChannels(const Layer& transposed) {
  Layer layer = transposed;
  const int s = transposed.stride_px;
  layer.op = Op::kConv;
  layer.stride_px = 1;
  layer.padding_px = 0;
  layer.kernel_px = (transposed.kernel_px + s - 1) / s;
  layer.out_channels = transposed.out_channels * s * s;
  layer.weights.resize(size_t{1} * layer.out_channels * layer.in_channels * layer.kernel_px *
                       layer.kernel_px);
  layer.bias.resize(layer.out_channels);
  return layer;
}

Size ConvolutionOutput(const Layer& layer, Size in) {
  const int border = layer.kernel_px - 2 * layer.padding_px;
  return {(in.width - border) / layer.stride_px + 1, (in.height - border) / layer.stride_px + 1};
}

OnednnConvolution MakeForward(OnednnDevice& device, const Layer& layer, Size in,
                              OnednnVariant variant) {
  const bool int8 = variant == OnednnVariant::kInt8;
  const memory::dim k = layer.kernel_px, s = layer.stride_px, p = layer.padding_px;
  const Dims weight_dims = {layer.out_channels, layer.in_channels, k, k};
  const memory::desc bias({layer.out_channels}, Type::f32, Layout::a);
  const Type activations = int8 ? Type::u8 : Type::f32;
  // For inference it would choose F(2x2, 3x3).
  const auto kind = variant == OnednnVariant::kWinograd ? dnnl::prop_kind::forward_training
                                                        : dnnl::prop_kind::forward_inference;
  const auto algorithm = variant == OnednnVariant::kWinograd ? dnnl::algorithm::convolution_winograd
                                                             : dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::desc operation(
      kind, algorithm, AnyLayout(OnednnDims(layer.in_channels, in), activations),
      AnyLayout(weight_dims, int8 ? Type::s8 : Type::f32), bias,
      AnyLayout(OnednnDims(layer.out_channels, ConvolutionOutput(layer, in)), activations), {s, s},
      {p, p}, {p, p});
  const dnnl::convolution_forward::primitive_desc chosen(operation, AttributesOf(layer, variant),
                                                         device.engine);
  OnednnConvolution result;
  result.src = chosen.src_desc();
  result.dst = chosen.dst_desc();
  result.primitive = dnnl::convolution_forward(chosen);
  result.bias = memory(bias, device.engine);
  std::copy(layer.bias.begin(), layer.bias.end(),
            static_cast<float*>(result.bias.get_data_handle()));

  memory plain({weight_dims, Type::f32, Layout::oihw}, device.engine);
  std::copy(layer.weights.begin(), layer.weights.end(),
            static_cast<float*>(plain.get_data_handle()));
  result.weights = memory(chosen.weights_desc(), device.engine);
  MakeOnednnReorder(device, plain.get_desc(), result.weights.get_desc(),
                    int8 ? kOnednnFullScale : 1)
      .execute(device.stream, plain, result.weights);
  return result;
}

}  // namespace

memory::dims OnednnDims(int channels, Size size) { return {1, channels, size.height, size.width}; }

dnnl::reorder MakeOnednnReorder(OnednnDevice& device, const memory::desc& from,
                                const memory::desc& to, float scale) {
  dnnl::primitive_attr attributes;
  if (scale != 1) attributes.set_output_scales(0, {scale});
  return dnnl::reorder({device.engine, from, device.engine, to, attributes});
}

void OnednnConvolution::Run(OnednnDevice& device, const memory& from, const memory& to) const {
  primitive.execute(device.stream, {{DNNL_ARG_SRC, from},
                                    {DNNL_ARG_WEIGHTS, weights},
                                    {DNNL_ARG_BIAS, bias},
                                    {DNNL_ARG_DST, to}});
}

absl::StatusOr<OnednnConvolution> MakeOnednnConvolution(OnednnDevice& device, const Layer& layer,
                                                        Size in, OnednnVariant variant) {
  try {
    return layer.op == Op::kConvTranspose
               ? MakeForward(device, PhasesAsChannels(layer), in, variant)
               : MakeForward(device, layer, in, variant);
  } catch (const dnnl::error& error) {
    return absl::UnimplementedError(absl::StrCat(ToAbsl(OnednnName(variant)), ": ", error.what()));
  }
}

memory MakeOnednnInput(OnednnDevice& device, const OnednnConvolution& convolution) {
  memory src(convolution.src, device.engine);
  const size_t bytes = convolution.src.get_size();
  std::mt19937 random(1);
  if (convolution.src.data_type() == Type::f32) {
    std::uniform_real_distribution<float> value(-1.0f, 1.0f);
    std::generate_n(static_cast<float*>(src.get_data_handle()), bytes / sizeof(float),
                    [&] { return value(random); });
  } else {
    std::generate_n(static_cast<uint8_t*>(src.get_data_handle()), bytes,
                    [&] { return static_cast<uint8_t>(random()); });
  }
  return src;
}

double SecondsOf(OnednnDevice& device, const OnednnConvolution& convolution) {
  const memory src = MakeOnednnInput(device, convolution), dst(convolution.dst, device.engine);
  double best_s = std::numeric_limits<double>::max();
  for (int i = 0; i < 3; ++i) {
    const absl::Time start = absl::Now();
    convolution.Run(device, src, dst);
    device.stream.wait();
    best_s = std::min(best_s, absl::ToDoubleSeconds(absl::Now() - start));
  }
  return best_s;
}

}  // namespace upscaled::bench
