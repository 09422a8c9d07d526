// Operators that change height and width.
#include <algorithm>
#include <array>
#include <limits>
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

// The pixels that a Slice cuts off both ends of the height (2) and the width (3); nullopt: it does
// other things.
std::optional<std::array<int, 4>> CutOffPx(const std::vector<int64_t>& starts,
                                           const std::vector<int64_t>& ends,
                                           const std::vector<int64_t>& axes,
                                           const std::vector<int64_t>& steps) {
  const auto is_one = [](int64_t step) { return step == 1; };
  if (starts.size() != ends.size() || starts.size() != axes.size() ||
      !std::all_of(steps.begin(), steps.end(), is_one)) {
    return std::nullopt;
  }
  std::array<int, 4> cut_off_px = {};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + 4 : axes[i];
    // To the end or beyond is nothing cut off.
    const int64_t end = ends[i] >= std::numeric_limits<int32_t>::max() ? 0 : ends[i];
    const bool same_off_both = starts[i] >= 0 && starts[i] <= kMaxPadPx && end == -starts[i];
    if ((axis != 2 && axis != 3) || !same_off_both) return std::nullopt;
    cut_off_px[axis] = static_cast<int>(starts[i]);
  }
  return cut_off_px;
}

}  // namespace

absl::StatusOr<int> Builder::ReadScales(Node& node, size_t input) {
  std::vector<float> scales;
  if (node.attributes.Has("scales")) {
    ASSIGN_OR_RETURN(scales, node.attributes.Floats("scales"));
  } else {
    ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, input));
    ASSIGN_OR_RETURN(scales, ReadFloats(*constant));
  }
  const bool ours = scales.size() == 4 && scales[0] == 1 && scales[1] == 1 &&
                    scales[2] == scales[3] && scales[2] >= 1 && scales[2] <= kMaxFactor &&
                    scales[2] == static_cast<float>(static_cast<int>(scales[2]));
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
  // Attributes of cubic resizes and crops, which we do not do; exporters write them anyway.
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
  if (node.inputs.size() == 4 && node.inputs[3] != nullptr) {
    return absl::UnimplementedError("a fixed size is not supported, only scales");
  }
  Layer layer = NewLayer(node, nearest ? Op::kResizeNearest : Op::kResizeBilinear, {input});
  ASSIGN_OR_RETURN(layer.factor, ReadScales(node, old ? 1 : 2));
  return Append(node, std::move(layer));
}

absl::Status Builder::AddUpsample(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "nearest"));
  ASSIGN_OR_RETURN(const int factor, ReadScales(node, 1));
  if (mode != "nearest" && factor != 1) {
    return absl::UnimplementedError(absl::StrCat(
        "mode ", Quote(mode), " is not supported, only nearest: Upsample's linear mode shifts the ",
        "image; export with operator set 11 or newer"));
  }
  Layer layer = NewLayer(node, Op::kResizeNearest, {input});
  layer.factor = factor;
  return Append(node, std::move(layer));
}

absl::Status Builder::AppendCrop(const Node& node, const Value& value, int crop_px) {
  if (crop_px == 0) return PassThrough(node, value);
  Layer layer = NewLayer(node, Op::kCrop, {&value});
  layer.crop_px = crop_px;
  return Append(node, std::move(layer));
}

absl::Status Builder::AddPad(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "constant"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> pads, IntsOf(node, "pads", 1));
  if (node.inputs.size() > 3) return absl::UnimplementedError("axes are not supported");
  // Before and behind the first pixel of each of four axes: the same on all sides of the planes.
  const bool ours = pads.size() == 8 && pads[0] == 0 && pads[1] == 0 && pads[4] == 0 &&
                    pads[5] == 0 && pads[2] == pads[3] && pads[3] == pads[6] &&
                    pads[6] == pads[7] && pads[2] >= -kMaxPadPx && pads[2] <= kMaxPadPx;
  if (!ours) {
    return absl::UnimplementedError(absl::StrCat("pads ", List(pads),
                                                 " are not supported, must be [0, 0, p, ",
                                                 "p, 0, 0, p, p] with at most ", kMaxPadPx));
  }
  const int padding_px = static_cast<int>(pads[2]);
  Layer layer = NewLayer(node, Op::kPad, {input});
  layer.padding_px = padding_px;
  ASSIGN_OR_RETURN(layer.pad_value, node.attributes.Float("value", 0));
  if (node.inputs.size() > 2 && node.inputs[2] != nullptr) {
    ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, 2));
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFloats(*constant));
    if (values.size() > 1) return absl::InvalidArgumentError("has several values to fill with");
    if (!values.empty()) layer.pad_value = values[0];
  }
  if (mode == "edge") {
    layer.pad_mode = PadMode::kReplicate;
  } else if (mode == "reflect") {
    layer.pad_mode = PadMode::kReflect;
  } else if (mode != "constant") {
    return absl::UnimplementedError(
        absl::StrCat("mode ", Quote(mode), " is not supported, only constant, edge and reflect"));
  }
  if (padding_px <= 0) return AppendCrop(node, *input, -padding_px);
  return Append(node, std::move(layer));
}

absl::Status Builder::AppendSlice(const Node& node, const Value& value, int64_t start,
                                  int64_t end) {
  const int64_t channels = Channels(value);
  const auto from_begin = [channels](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + channels : at, 0, channels);
  };
  const int64_t first = from_begin(start), behind = from_begin(end);
  if (first >= behind) {
    return absl::InvalidArgumentError(absl::StrCat("takes the channels from ", start, " to before ",
                                                   end, " of ", channels, ", which are none"));
  }
  Layer layer = NewLayer(node, Op::kSlice, {&value});
  layer.first_channel = static_cast<int>(first);
  layer.out_channels = static_cast<int>(behind - first);
  return Append(node, std::move(layer));
}

// Channels, or the same off every side of the planes, in one node or in one for each axis.
absl::Status Builder::AddSlice(Node& node) {
  const Value* input = node.inputs[0];
  if (input == nullptr || input->form != Form::kHalfCropped) {
    ASSIGN_OR_RETURN(input, Planes(node, 0));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> starts, IntsOf(node, "starts", 1));
  ASSIGN_OR_RETURN(const std::vector<int64_t> ends, IntsOf(node, "ends", 2));
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, IntsOf(node, "axes", 3));
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, IntsOf(node, "steps", 4));
  if (axes.empty()) axes = {0, 1, 2, 3};
  const bool of_channels = axes.size() == 1 && (axes[0] == 1 || axes[0] == -3) &&
                           starts.size() == 1 && ends.size() == 1 &&
                           (steps.empty() || steps == std::vector<int64_t>{1});
  if (of_channels && input->form == Form::kPlanes) {
    return AppendSlice(node, *input, starts[0], ends[0]);
  }
  const std::optional<std::array<int, 4>> cut_off_px = CutOffPx(starts, ends, axes, steps);
  if (!cut_off_px.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("starts ", List(starts), " ends ", List(ends), " axes ", List(axes), " steps ",
                     List(steps), " are not supported, must cut the same number of pixels (0..",
                     kMaxPadPx, ") off every side"));
  }
  return AppendCuts(node, *input, *cut_off_px);
}

absl::Status Builder::AppendCuts(const Node& node, Value result, std::array<int, 4> cut_off_px) {
  if (result.form == Form::kHalfCropped) {
    cut_off_px[result.crop_axis] += result.crop_px;
    result.form = Form::kPlanes;
  }
  if (cut_off_px[2] == cut_off_px[3]) return AppendCrop(node, result, cut_off_px[2]);
  if (cut_off_px[2] != 0 && cut_off_px[3] != 0) {
    return absl::UnimplementedError(absl::StrCat("cuts ", cut_off_px[2],
                                                 " pixels off the height and ", cut_off_px[3],
                                                 " off the width, must be the same"));
  }
  result.form = Form::kHalfCropped;
  result.crop_axis = cut_off_px[2] != 0 ? 2 : 3;
  result.crop_px = cut_off_px[result.crop_axis];
  return PassThrough(node, result);
}

}  // namespace upscaled::onnx
