// Operators to change height and width.
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

// Whether result pixel x takes source pixel floor(x / factor), for every whole factor.
bool IsOurNearest(const std::string& transformation, const std::string& rounding) {
  // (x + 1/2) / factor - 1/2 is less than a half away from it.
  const bool centred = transformation == "half_pixel" || transformation == "pytorch_half_pixel" ||
                       transformation == "half_pixel_symmetric";
  if (centred) return rounding == "round_prefer_floor" || rounding == "round_prefer_ceil";
  // x / factor and (x + 1/2) / factor.
  return rounding == "floor" &&
         (transformation == "asymmetric" || transformation == "tf_half_pixel_for_nn");
}

// The factor of each side, where it is the same for all images.
std::optional<std::vector<double>> Ratios(const std::vector<PerProbe>& sizes, const View& view) {
  std::vector<double> ratios;
  if (sizes.size() != view.size()) return std::nullopt;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    const PerProbe side = SideOf(view[axis]);
    for (size_t i = 0; i < kAlignedProbes; ++i) {
      if (side[i] < 1) return std::nullopt;
      const double ratio = static_cast<double>(sizes[axis][i]) / static_cast<double>(side[i]);
      if (i > 0 && ratio != ratios.back()) return std::nullopt;
      if (i == 0) ratios.push_back(ratio);
    }
  }
  return ratios;
}

}  // namespace

absl::StatusOr<int> Builder::ReadScales(Node& node, size_t scales_input, size_t sizes_input,
                                        const Value& value) {
  std::vector<double> scales;
  if (node.attributes.Has("scales")) {
    ASSIGN_OR_RETURN(const std::vector<float> given, node.attributes.Floats("scales"));
    scales.assign(given.begin(), given.end());
  } else if (node.Has(sizes_input)) {
    const absl::StatusOr<std::vector<PerProbe>> sizes = SidesOf(node, "", sizes_input);
    const std::optional<std::vector<double>> ratios =
        sizes.ok() ? Ratios(*sizes, value.view) : std::nullopt;
    if (!ratios) return absl::UnimplementedError("a fixed size is not supported, only scales");
    scales = *ratios;
  } else if (node.Has(scales_input) && node.inputs[scales_input]->form == Form::kNumbers) {
    // The same for all images without padding.
    const SizedNumbers& numbers = *node.inputs[scales_input]->numbers;
    scales = numbers[0].values;
    for (size_t i = 1; i < kAlignedProbes; ++i) {
      if (numbers[i].values != scales) scales.clear();
    }
  } else {
    ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, scales_input));
    ASSIGN_OR_RETURN(const std::vector<float> given, ReadFloats(*constant));
    scales.assign(given.begin(), given.end());
  }
  const bool ours = scales.size() == 4 && scales[0] == 1 && scales[1] == 1 &&
                    scales[2] == scales[3] && scales[2] >= 1 && scales[2] <= kMaxFactor &&
                    scales[2] == std::floor(scales[2]);
  if (ours) return static_cast<int>(scales[2]);
  return absl::UnimplementedError(
      absl::StrCat("scales ", List(scales),
                   " are not supported, must be [1, 1, f, f] with a whole f in 1..", kMaxFactor));
}

absl::Status Builder::AddResize(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  Attributes& attributes = node.attributes;
  // Set 10 has two inputs, and positions as Upsample has them.
  const bool old = node.inputs.size() == 2;
  ASSIGN_OR_RETURN(const std::string mode, attributes.String("mode", "nearest"));
  ASSIGN_OR_RETURN(
      const std::string transformation,
      attributes.String("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"));
  ASSIGN_OR_RETURN(const std::string rounding,
                   attributes.String("nearest_mode", old ? "floor" : "round_prefer_floor"));
  // Attributes of cubic resizes and crops. We have neither; exporters write them anyway.
  RETURN_IF_ERROR(attributes.Float("cubic_coeff_a", 0).status());
  RETURN_IF_ERROR(attributes.Float("extrapolation_value", 0).status());
  RETURN_IF_ERROR(attributes.String("keep_aspect_ratio_policy", "").status());
  RETURN_IF_ERROR(attributes.Expect("antialias", 0));
  RETURN_IF_ERROR(attributes.Expect("exclude_outside", 0));
  const bool nearest = mode == "nearest" && IsOurNearest(transformation, rounding);
  const bool linear = mode == "linear" &&
                      (transformation == "half_pixel" || transformation == "pytorch_half_pixel");
  if (!nearest && !linear) {
    return absl::UnimplementedError(absl::StrCat(
        "mode ", Quote(mode), " with positions ", Quote(transformation), " and rounding ",
        Quote(rounding), " is not supported, only nearest pixels and linear with half_pixel"));
  }
  Layer layer = NewLayer(node, nearest ? Op::kResizeNearest : Op::kResizeBilinear, {input});
  ASSIGN_OR_RETURN(layer.factor, ReadScales(node, old ? 1 : 2, 3, *input));
  return Append(node, std::move(layer));
}

absl::Status Builder::AddUpsample(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "nearest"));
  ASSIGN_OR_RETURN(const int factor, ReadScales(node, 1, 3, *input));
  if (mode != "nearest" && factor != 1) {
    return absl::UnimplementedError(absl::StrCat(
        "mode ", Quote(mode), " is not supported, only nearest: Upsample's linear mode shifts the ",
        "image; export with operator set 11 or newer"));
  }
  Layer layer = NewLayer(node, Op::kResizeNearest, {input});
  layer.factor = factor;
  return Append(node, std::move(layer));
}

}  // namespace upscaled::onnx
