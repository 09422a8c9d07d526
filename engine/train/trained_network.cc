#include "engine/train/trained_network.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/train/activation.h"
#include "engine/train/column_conv.h"
#include "engine/train/conv.h"
#include "engine/train/gating.h"
#include "engine/train/parameters.h"
#include "engine/train/rearranging.h"

namespace upscaled::train {
namespace {

// For one pixel it is a convolution of 1x1.
Layer AsConv(const Layer& fully_connected) {
  return {.op = Op::kConv,
          .out_channels = fully_connected.out_channels,
          .in_channels = fully_connected.in_channels};
}

// The step of a layer before its activation; null: none are trainable.
template <typename Real>
std::unique_ptr<Step<Real>> MakeStep(const Layer& layer, const ConvDevice& device) {
  switch (layer.op) {
    case Op::kConv:
      if (ConvSupports(layer)) {
        return std::make_unique<Conv<Real>>(layer, KernelMakerOf<Real>(device));
      }
      return std::make_unique<ColumnConv<Real>>(layer);
    case Op::kConvTranspose:
      return std::make_unique<ColumnConv<Real>>(layer);
    case Op::kFullyConnected:
      return std::make_unique<Conv<Real>>(AsConv(layer), KernelMakerOf<Real>(device));
    case Op::kAdd:
      return std::make_unique<Add<Real>>();
    case Op::kMul:
      return std::make_unique<Multiply<Real>>();
    case Op::kGlobalAveragePool:
      return std::make_unique<GlobalAveragePool<Real>>();
    case Op::kCrop:
      return std::make_unique<Rearrange<Real>>(Rearrangement{.crop_px = layer.crop_px});
    case Op::kResizeNearest:
      return std::make_unique<Rearrange<Real>>(Rearrangement{.factor = layer.factor});
    case Op::kPixelShuffle:
      return std::make_unique<Rearrange<Real>>(
          Rearrangement{.factor = layer.factor, .shuffles = true});
    default:
      return nullptr;
  }
}

template <typename Real>
std::unique_ptr<Step<Real>> MakeActivation(const Layer& layer) {
  if (layer.activation == Activation::kPRelu) return std::make_unique<PRelu<Real>>();
  if (layer.activation == Activation::kSigmoid) return std::make_unique<Sigmoid<Real>>();
  const bool leaky = layer.activation == Activation::kLeakyRelu;
  return std::make_unique<LeakyRelu<Real>>(leaky ? Real{layer.slope[0]} : Real{0});
}

}  // namespace

template <typename Real>
absl::StatusOr<std::unique_ptr<TrainedNetwork<Real>>> TrainedNetwork<Real>::Create(
    const Network& network, Size input, int images, const ConvDevice& device) {
  std::unique_ptr<TrainedNetwork> made(new TrainedNetwork);
  made->values_.emplace_back(Grid{images, input}, network.layers.front().out_channels);
  made->gradients_.emplace_back();  // nobody asks for the input's
  std::vector<int> tensor_of_layer = {0};
  for (size_t i = 1; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    if (absl::Status status = made->Append(layer, device, tensor_of_layer); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("layer '", layer.name, "': ", status.message()));
    }
  }
  return made;
}

template <typename Real>
absl::Status TrainedNetwork<Real>::Append(const Layer& layer, const ConvDevice& device,
                                          std::vector<int>& tensor_of_layer) {
  std::vector<int> sources;
  for (const int input : layer.inputs) sources.push_back(tensor_of_layer[input]);
  if (!ActivationSupports(layer)) {
    return absl::UnimplementedError(
        absl::StrCat("cannot be trained with a ", ToAbsl(ActivationName(layer.activation))));
  }
  const size_t end = parameter_count_ + ParameterCount(layer);
  if (layer.op != Op::kActivation) {
    std::unique_ptr<Step<Real>> step = MakeStep<Real>(layer, device);
    if (step == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat("this ", ToAbsl(OpName(layer.op)), " cannot be trained (see engine/train)"));
    }
    RETURN_IF_ERROR(AppendStep(std::move(step), std::move(sources), layer.out_channels));
    parameter_count_ += layer.weights.size() + layer.bias.size();
    sources = {static_cast<int>(nodes_.size())};
  }
  const bool activated = ConvSupports(layer) && ConvActivates(layer);
  if (layer.activation != Activation::kNone && !activated) {
    RETURN_IF_ERROR(
        AppendStep(MakeActivation<Real>(layer), std::move(sources), layer.out_channels));
  }
  parameter_count_ = end;
  tensor_of_layer.push_back(static_cast<int>(nodes_.size()));
  return absl::OkStatus();
}

template <typename Real>
absl::Status TrainedNetwork<Real>::AppendStep(std::unique_ptr<Step<Real>> step,
                                              std::vector<int> sources, int channels) {
  const Grid& source = values_[sources[0]].grid();
  const Grid grid{source.images, step->OutputSize(source.size)};
  if (grid.size.width < 1 || grid.size.height < 1) {
    return absl::InvalidArgumentError(absl::StrCat("an input of ", values_[0].grid().size.width,
                                                   " x ", values_[0].grid().size.height,
                                                   " pixels leaves it none"));
  }
  for (const int other : sources) {
    if (!step->Takes(source.size, values_[other].grid().size)) {
      return absl::InvalidArgumentError("its inputs differ in size");
    }
  }
  nodes_.push_back({std::move(step), std::move(sources), parameter_count_});
  values_.emplace_back(grid, channels);
  gradients_.emplace_back(grid, channels);
  return absl::OkStatus();
}

template <typename Real>
void TrainedNetwork<Real>::Begin(const Real* parameters) {
  for (Node& node : nodes_) node.step->Begin(parameters + node.first_parameter);
}

template <typename Real>
void TrainedNetwork<Real>::End(Real* gradient) {
  for (Node& node : nodes_) node.step->End(gradient + node.first_parameter);
}

template <typename Real>
void TrainedNetwork<Real>::Forward(const Real* parameters) {
  std::vector<const Tensor<Real>*> sources;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    sources.clear();
    for (const int source : nodes_[i].sources) sources.push_back(&values_[source]);
    nodes_[i].step->Forward(parameters + nodes_[i].first_parameter, sources, values_[i + 1]);
  }
}

template <typename Real>
void TrainedNetwork<Real>::Backward(const Real* parameters, Real* gradient) {
  std::vector<bool> written(gradients_.size());
  std::vector<const Tensor<Real>*> sources;
  std::vector<SourceGradient<Real>> source_gradients;
  for (size_t i = nodes_.size(); i-- > 0;) {
    sources.clear();
    source_gradients.clear();
    for (const int source : nodes_[i].sources) {
      sources.push_back(&values_[source]);
      source_gradients.push_back({source == 0 ? nullptr : &gradients_[source], written[source]});
      written[source] = true;
    }
    nodes_[i].step->Backward(parameters + nodes_[i].first_parameter, sources, values_[i + 1],
                             gradients_[i + 1], source_gradients,
                             gradient + nodes_[i].first_parameter);
  }
}

template class TrainedNetwork<float>;
template class TrainedNetwork<double>;

}  // namespace upscaled::train
