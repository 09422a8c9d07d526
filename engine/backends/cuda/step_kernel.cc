#include "engine/backends/cuda/step_kernel.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/kernels/elementwise.h"
#include "engine/backends/cuda/kernels/elementwise_layer.h"
#include "engine/backends/cuda/kernels/first_conv.h"
#include "engine/backends/cuda/kernels/fused_conv.h"
#include "engine/backends/cuda/kernels/gate.h"
#include "engine/backends/cuda/kernels/input_channels.h"
#include "engine/backends/cuda/kernels/layer_constants.h"
#include "engine/backends/cuda/kernels/pack_weights.h"
#include "engine/backends/cuda/kernels/pixels.h"
#include "engine/backends/cuda/kernels/pooling.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/shapes.h"

namespace upscaled::cuda {
namespace {

// Returns a residual in coordinates after a cut of crop_px pixels off every side. Kernels look only
// at its `rect`.
TensorView Cropped(TensorView residual, int crop_px) {
  residual.rect.x -= crop_px;
  residual.rect.y -= crop_px;
  return residual;
}

// One tile of a batch.
TensorView OfTile(TensorView view, int tile, Precision precision) {
  if (view.data == nullptr) return view;
  view.data = static_cast<uint8_t*>(view.data) +
              tile * view.tile_stride * kPlaneChannels * StorageBytes(precision);
  return view;
}
ConvParams OfTile(ConvParams params, int tile, Precision precision) {
  for (TensorView* view : {&params.src, &params.dst, &params.residual}) {
    *view = OfTile(*view, tile, precision);
  }
  SampleView& samples = params.samples;
  if (samples.data != nullptr) {
    samples.data =
        static_cast<uint8_t*>(samples.data) + tile * samples.tile_stride * BytesOf(samples.kind);
    samples.lost += tile;
  }
  if (params.sums.data != nullptr) {
    params.sums.data += tile * PlaneCount(params.dst.channels) * kPlaneChannels;
  }
  params.tiles = 1;
  return params;
}

}  // namespace

FusedLayers FusedOf(const Network& network, const Node& node) {
  return {.main = &network.layers[node.main],
          .shuffle = node.shuffle < 0 ? nullptr : &network.layers[node.shuffle],
          .reads_image = node.reads_image};
}

absl::StatusOr<StepKernel> StepKernel::Create(const std::shared_ptr<Context>& context,
                                              const Network& network, const Program& program,
                                              size_t node, Precision precision,
                                              const KernelInfo* kernel) {
  StepKernel step(program, node, precision);
  step.limits_ = context->device().limits;
  step.half_epilogue_ = context->Allows(kHalfEpilogue);
  RETURN_IF_ERROR(step.Pack(context, network, kernel));
  return step;
}

absl::Status StepKernel::Pack(const std::shared_ptr<Context>& context, const Network& network,
                              const KernelInfo* kernel) {
  const Layer& own = network.layers[node_->layer()];
  PackedConv packed;
  switch (kind_) {
    case NodeKind::kLoadPixels:
      return absl::OkStatus();
    case NodeKind::kFirstConv:
      packed = PackFirstConv(own);
      activation_ = ActivationOf(own);
      break;
    case NodeKind::kConv: {
      const FusedLayers fused = FusedOf(network, *node_);
      const FusedConv layers{fused.main, fused.shuffle};
      conv_kernel_ = static_cast<const ConvKernel*>(kernel);
      const auto pack = [&](const FusedConv& of) {
        return conv_kernel_->pack(of, precision_, limits_);
      };
      packed = pack(layers);
      half_weights_ = packed.half_weights;
      if (node_->gate >= 0) {
        const std::vector<uint16_t> channels = InputChannels(layers, pack);
        ASSIGN_OR_RETURN(input_channels_, Upload(context, std::as_bytes(std::span(channels)),
                                                 absl::StrCat("channels of '", own.name, "'")));
      }
      shape_ = ShapeOf(layers);
      activation_ = ActivationOf(layers);
      break;
    }
    case NodeKind::kElementwise:
    case NodeKind::kLoadMeans:
      packed.constants = PackConstants(own);
      activation_ = ActivationOf(own);
  }
  const std::string what = absl::StrCat("the weights of layer '", own.name, "'");
  if (!packed.weights.empty()) {
    ASSIGN_OR_RETURN(weights_, Upload(context, std::as_bytes(std::span(packed.weights)), what));
  }
  ASSIGN_OR_RETURN(constants_, Upload(context, std::as_bytes(std::span(packed.constants)), what));
  return absl::OkStatus();
}

std::string_view StepKernel::name() const {
  switch (kind_) {
    case NodeKind::kLoadPixels:
      return "load_pixels";
    case NodeKind::kFirstConv:
      return "first_conv";
    case NodeKind::kConv:
      return conv_kernel_->name;
    case NodeKind::kElementwise:
      return "elementwise";
    case NodeKind::kLoadMeans:
      return "load_means";
  }
  return "";
}

absl::Status StepKernel::Enqueue(Context& context, const BatchViews& views,
                                 cudaStream_t stream) const {
  if (views.tensors[node_->layer()].region.empty()) return absl::OkStatus();
  const cudaError_t error = Launch(views, stream);
  if (error == cudaSuccess) return absl::OkStatus();
  return context.Check(
      error, absl::StrCat("launch of ", ToAbsl(name()), " for layer '", layer().name, "'"));
}

cudaError_t StepKernel::Launch(const BatchViews& views, cudaStream_t stream) const {
  const TensorView& dst = views.tensors[node_->layer()];
  switch (kind_) {
    case NodeKind::kLoadPixels:
      return LaunchLoadPixels(views.image, views.image_size, program_->network.pad_px, dst,
                              views.tiles, precision_, stream);
    case NodeKind::kFirstConv:
      return LaunchFirst(views, stream);
    case NodeKind::kConv:
      return LaunchConv(views, stream);
    case NodeKind::kElementwise:
      return LaunchElementwiseStep(views, stream);
    case NodeKind::kLoadMeans:
      return LaunchLoadMeans(views.means[node_->layer()], dst, views.tiles, activation_,
                             reinterpret_cast<const float*>(constants_.data()), precision_, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t StepKernel::LaunchFirst(const BatchViews& views, cudaStream_t stream) const {
  FirstConvParams params;
  params.image = views.image;
  params.image_size = views.image_size;
  params.pad_px = program_->network.pad_px;
  params.resize_factor = node_->resize_factor;
  params.conv_input = views.tensors[layer().inputs[0]].layer;
  params.padding_px = layer().padding_px;
  params.dst = views.tensors[node_->layer()];
  params.tiles = views.tiles;
  params.weights = reinterpret_cast<const float*>(weights_.data());
  params.constants = reinterpret_cast<const float*>(constants_.data());
  params.activation = activation_;
  return LaunchFirstConv(params, precision_, stream);
}

cudaError_t StepKernel::LaunchConv(const BatchViews& views, cudaStream_t stream) const {
  ConvParams params;
  params.shape = shape_;
  params.src = views.tensors[node_->inputs[0]];
  params.dst = views.tensors[node_->layer()];
  params.tiles = views.tiles;
  params.weights = weights_.data();
  params.constants = reinterpret_cast<const float*>(constants_.data());
  params.activation = activation_;
  if (node_->residual >= 0) {
    params.residual = Cropped(views.tensors[node_->residual], node_->residual_crop_px);
    params.residual_factor = node_->residual_factor;
  }
  if (params.dst.data == nullptr) params.samples = views.samples;
  params.gave_up = views.gave_up;
  params.half_epilogue = half_epilogue_;
  if (AddsSums(views)) params.sums = views.sums;
  if (node_->gate >= 0 || node_->residual_gate >= 0) return LaunchGatedConv(views, params, stream);
  return conv_kernel_->launch(params, precision_, limits_, stream);
}

// One tile after the other: each has its own factors, and the weights by them take turns in memory.
cudaError_t StepKernel::LaunchGatedConv(const BatchViews& views, const ConvParams& params,
                                        cudaStream_t stream) const {
  for (int tile = 0; tile < params.tiles; ++tile) {
    ConvParams own = OfTile(params, tile, precision_);
    if (node_->gate >= 0) {
      const GateParams gate{.weights = weights_.data(),
                            .channels = reinterpret_cast<const uint16_t*>(input_channels_.data()),
                            .count = WeightCount(),
                            .factors = OfTile(views.tensors[node_->gate], tile, precision_),
                            .gated = views.gated_weights};
      own.weights = gate.gated;
      const cudaError_t error = LaunchGate(gate, half_weights_, precision_, stream);
      if (error != cudaSuccess) return error;
    }
    if (node_->residual_gate >= 0) {
      own.residual_gate = OfTile(views.tensors[node_->residual_gate], tile, precision_);
    }
    const cudaError_t error = conv_kernel_->launch(own, precision_, limits_, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t StepKernel::LaunchElementwiseStep(const BatchViews& views, cudaStream_t stream) const {
  const std::vector<int>& inputs = node_->inputs;
  const bool by_channel = inputs.size() > 1 && program_->per_image[inputs[1]];
  ElementwiseParams params = ElementwiseOf(layer(), by_channel);
  params.constants = reinterpret_cast<const float*>(constants_.data());
  params.dst = views.tensors[node_->layer()];
  params.tiles = views.tiles;
  if (params.kind != ElementwiseKind::kConcat) {
    params.src0 = views.tensors[inputs[0]];
    if (inputs.size() > 1) params.src1 = views.tensors[inputs[1]];
    return LaunchElementwise(params, precision_, stream);
  }
  for (const int input : inputs) {
    params.src0 = views.tensors[input];
    if (const cudaError_t error = LaunchElementwise(params, precision_, stream);
        error != cudaSuccess) {
      return error;
    }
    params.first_channel += params.src0.channels;
  }
  return cudaSuccess;
}

}  // namespace upscaled::cuda
