#include "engine/model/waifu2x_json_loader.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/border.h"
#include "engine/model/json_shape.h"
#include "engine/model/limits.h"
#include "nlohmann/json.hpp"

namespace upscaled {
namespace {

using Json = nlohmann::json;

constexpr float kSlope = 0.1f;

// `missing` < 0: the field must be there.
absl::StatusOr<int> GetInt(const Json& object, const char* key, int missing, int min, int max) {
  const auto field = object.find(key);
  if (field == object.end() && missing >= 0) return missing;
  if (field == object.end() || !field->is_number()) {
    return absl::InvalidArgumentError(absl::StrCat("has no number '", key, "'"));
  }
  const double value = field->get<double>();
  if (!(value >= min && value <= max) || value != static_cast<int>(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " is ", value, ", must be an integer in ", min, "..", max));
  }
  return static_cast<int>(value);
}

// Appends the numbers of nested arrays with the lengths of `shape`.
absl::Status AppendNumbers(const Json& value, const char* what, const int* shape, size_t rank,
                           std::vector<float>& numbers) {
  if (rank == 0) {
    if (!value.is_number()) {
      return absl::InvalidArgumentError(absl::StrCat(what, " holds something else than numbers"));
    }
    numbers.push_back(value.get<float>());
    return absl::OkStatus();
  }
  if (!value.is_array() || value.size() != static_cast<size_t>(shape[0])) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", value.is_array() ? absl::StrCat(value.size()) : "no",
                     " values along an axis"
                     " of ",
                     shape[0]));
  }
  for (const Json& element : value) {
    RETURN_IF_ERROR(AppendNumbers(element, what, shape + 1, rank - 1, numbers));
  }
  return absl::OkStatus();
}

absl::StatusOr<Layer> ParseGeometry(const Json& source) {
  Layer layer;
  const auto name = source.find("class_name");  // older files have only one class and do not say
  const std::string type = name == source.end() ? "nn.SpatialConvolutionMM"
                           : name->is_string()  ? name->get<std::string>()
                                                : "";
  if (absl::EndsWith(type, ".SpatialConvolutionMM") ||
      absl::EndsWith(type, ".SpatialConvolution")) {
    layer.op = Op::kConv;
  } else if (absl::EndsWith(type, ".SpatialFullConvolution")) {
    layer.op = Op::kConvTranspose;
  } else {
    return absl::UnimplementedError(absl::StrCat("class_name '", type, "' is not supported"));
  }
  ASSIGN_OR_RETURN(layer.in_channels, GetInt(source, "nInputPlane", -1, 1, kMaxChannels));
  ASSIGN_OR_RETURN(layer.out_channels, GetInt(source, "nOutputPlane", -1, 1, kMaxChannels));
  ASSIGN_OR_RETURN(layer.kernel_px, GetInt(source, "kW", -1, 1, kMaxKernelPx));
  ASSIGN_OR_RETURN(layer.stride_px, GetInt(source, "dW", 1, 1, kMaxFactor));
  ASSIGN_OR_RETURN(layer.padding_px, GetInt(source, "padW", 0, 0, kMaxKernelPx));
  ASSIGN_OR_RETURN(const int kernel_height, GetInt(source, "kH", -1, 1, kMaxKernelPx));
  ASSIGN_OR_RETURN(const int stride_y, GetInt(source, "dH", layer.stride_px, 1, kMaxFactor));
  ASSIGN_OR_RETURN(const int padding_y, GetInt(source, "padH", layer.padding_px, 0, kMaxKernelPx));
  if (kernel_height != layer.kernel_px || stride_y != layer.stride_px ||
      padding_y != layer.padding_px) {
    return absl::UnimplementedError(absl::StrCat(
        "kernel ", layer.kernel_px, "x", kernel_height, ", stride ", layer.stride_px, "x", stride_y,
        ", padding ", layer.padding_px, "x", padding_y, " must be square"));
  }
  for (const char* dilation : {"dilationW", "dilationH"}) {
    RETURN_IF_ERROR(GetInt(source, dilation, 1, 1, 1).status());
  }
  return layer;
}

absl::StatusOr<Layer> ParseLayer(const Json& source, int expected_channels) {
  if (!source.is_object()) return absl::InvalidArgumentError("is not an object");
  ASSIGN_OR_RETURN(Layer layer, ParseGeometry(source));
  if (layer.in_channels != expected_channels) {
    // Old models work only on luminance.
    return absl::InvalidArgumentError(
        absl::StrCat("takes ", layer.in_channels, " planes, must be ", expected_channels));
  }
  const auto weight = source.find("weight"), bias = source.find("bias");
  if (weight == source.end() || bias == source.end()) {
    return absl::InvalidArgumentError("has no 'weight' or no 'bias'");
  }
  int shape[] = {layer.out_channels, layer.in_channels, layer.kernel_px, layer.kernel_px};
  if (layer.op == Op::kConvTranspose) std::swap(shape[0], shape[1]);
  RETURN_IF_ERROR(AppendNumbers(*weight, "weight", shape, 4, layer.weights));
  RETURN_IF_ERROR(AppendNumbers(*bias, "bias", &layer.out_channels, 1, layer.bias));
  return layer;
}

void Append(Network& network, Layer layer) {
  if (!network.layers.empty()) {
    layer.inputs = {static_cast<int>(network.layers.size()) - 1};
    layer.in_channels = network.layers.back().out_channels;
    if (layer.out_channels == 0) layer.out_channels = layer.in_channels;
  }
  network.layers.push_back(std::move(layer));
}

// Pixels repeated twice, without the ones the convolutions do not need: they take `lost_px` result
// pixels off each axis, a whole number of source pixels on either side gives up to three more.
void AppendEnlargement(Network& network, int lost_px) {
  Append(network, {.op = Op::kResizeNearest, .name = "enlarge", .factor = 2});
  const int pad_px = (lost_px + 3) / 4;
  const int crop_px = (4 * pad_px - lost_px) / 2;
  if (crop_px > 0) Append(network, {.op = Op::kCrop, .name = "trim", .crop_px = crop_px});
}

// Pixels cut off by the layers if all keep the size except for their border; -1 if they do not.
int LostBorder(const std::vector<Layer>& layers) {
  int lost_px = 0;
  for (const Layer& layer : layers) {
    if (layer.op != Op::kConv || layer.stride_px != 1) return -1;
    lost_px += layer.kernel_px - 1 - 2 * layer.padding_px;
  }
  return lost_px;
}

// The first layer's model_config must not contradict the layers.
absl::Status CheckConfig(const Json& first_layer, int own_scale) {
  const auto config = first_layer.find("model_config");
  if (config == first_layer.end()) return absl::OkStatus();
  if (!config->is_object()) return absl::InvalidArgumentError("model_config is not an object");
  RETURN_IF_ERROR(GetInt(*config, "channels", 3, 3, 3).status());
  return GetInt(*config, "scale_factor", own_scale, own_scale, own_scale).status();
}

absl::StatusOr<std::vector<Layer>> ParseLayers(const Json& document) {
  std::vector<Layer> layers;
  for (size_t i = 0; i < document.size(); ++i) {
    absl::StatusOr<Layer> layer =
        ParseLayer(document[i], layers.empty() ? 3 : layers.back().out_channels);
    if (!layer.ok()) {
      return absl::Status(layer.status().code(),
                          absl::StrCat("layer ", i, ": ", layer.status().message()));
    }
    layer->name = absl::StrCat("conv", i + 1);
    if (i + 1 < document.size()) {
      layer->activation = Activation::kLeakyRelu;
      layer->slope = {kSlope};
    }
    layers.push_back(*std::move(layer));
  }
  return layers;
}

}  // namespace

absl::StatusOr<Network> ParseWaifu2xJson(std::string_view text, bool enlarge_first) {
  RETURN_IF_ERROR(CheckJsonShape(text));
  const Json document = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_array() || document.empty() || document.size() >= kMaxLayers) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no JSON array of 1..", kMaxLayers - 1, " layers"));
  }
  ASSIGN_OR_RETURN(std::vector<Layer> layers, ParseLayers(document));

  const int lost_px = LostBorder(layers);
  Network network;
  Append(network, {.op = Op::kInput, .name = "input", .out_channels = 3});
  const bool enlarge = enlarge_first && lost_px >= 0;
  if (enlarge) AppendEnlargement(network, lost_px);
  for (Layer& layer : layers) Append(network, std::move(layer));
  RETURN_IF_ERROR(InferBorder(network));
  RETURN_IF_ERROR(CheckConfig(document[0], enlarge ? 1 : network.scale));
  return network;
}

}  // namespace upscaled
