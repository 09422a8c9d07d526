// Operators to take a part of the planes or of the channels, or to add a border.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/limits.h"
#include "engine/model/onnx/axes.h"
#include "engine/model/onnx/builder.h"
#include "engine/model/onnx/tensor.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {
namespace {

constexpr int kRows = 2, kColumns = 3;  // axes of planes

std::string Show(const std::vector<PerProbe>& sides) {
  std::vector<std::string> shown;
  for (const PerProbe& side : sides) {
    shown.push_back(side == SameForAll(side[0]) ? absl::StrCat(side[0]) : "?");
  }
  return List(shown);
}

// The begin (or end) of a slice at `at`, along an axis of this side.
PerProbe Place(const PerProbe& at, const PerProbe& side) {
  PerProbe place;
  for (size_t i = 0; i < kProbes; ++i) {
    place[i] =
        std::clamp<int64_t>(at[i] < 0 ? at[i] + side[i] : at[i], 0, std::max<int64_t>(side[i], 0));
  }
  return place;
}

// The pads of planes as a cut of so much less; nullopt: channels are padded too.
std::optional<std::array<PerProbe, 4>> PadsOf(const std::vector<PerProbe>& pads) {
  if (pads.size() != 8) return std::nullopt;
  for (const size_t i : {0, 1, 4, 5}) {
    if (pads[i] != SameForAll(0)) return std::nullopt;
  }
  return std::array<PerProbe, 4>{pads[2], pads[6], pads[3], pads[7]};
}

bool AreFixed(const std::array<PerProbe, 4>& ends) {
  return std::all_of(ends.begin(), ends.end(),
                     [](const PerProbe& end) { return end == SameForAll(end[0]); });
}

}  // namespace

// Whether the sides become the next multiples of this, and then get the same border at all ends.
bool Builder::AlignsTo(const Sides& sides, const Cut& added, int multiple) {
  const auto missing = [multiple](int64_t side) { return (multiple - side % multiple) % multiple; };
  for (size_t i = 0; i < kProbes; ++i) {
    const int64_t border = 2 * added[kTop][i];
    if (added[kTop][i] + added[kBottom][i] != border + missing(sides.height[i])) return false;
    if (added[kLeft][i] + added[kRight][i] != border + missing(sides.width[i])) return false;
  }
  return true;
}

// The image itself is padded before the layers, if by its edge and seen in no other way, and with
// its border it has multiples, too; other planes by a layer.
absl::StatusOr<Builder::Value> Builder::Aligned(const Value& value, const Cut& added, Layer pad) {
  const int64_t pad_px = added[kTop][0];
  const Sides sides = sides_[value.layer];
  int multiple = 1;
  while (multiple <= kMaxPeriodPx && !AlignsTo(sides, added, multiple)) ++multiple;
  const bool sound = multiple <= kMaxPeriodPx && added[kTop] == SameForAll(pad_px) &&
                     added[kLeft] == SameForAll(pad_px) && pad_px >= 0 && pad_px <= kMaxPadPx;
  if (!sound) {
    return absl::UnimplementedError(
        absl::StrCat("pads are not supported, must be the same on every side, with at most ",
                     kMaxPadPx, ", or make the sides multiples of a number up to ", kMaxPeriodPx));
  }
  aligned_ = true;
  const bool of_image = value.layer == 0 && !value.shared && !alignment_ &&
                        pad.pad_mode == PadMode::kReplicate && 2 * pad_px % multiple == 0;
  if (!of_image) {
    pad.padding_px = static_cast<int>(pad_px);
    pad.factor = multiple;
    ASSIGN_OR_RETURN(const int index, AppendUnnamed(std::move(pad)));
    return PlanesOf(index);
  }
  alignment_ = {
      .pad_px = static_cast<int>(pad_px), .align_px = multiple, .image = sides, .added = added};
  Sides& image = sides_[0];
  for (size_t i = 0; i < kProbes; ++i) {
    image.height[i] += added[kTop][i] + added[kBottom][i];
    image.width[i] += added[kLeft][i] + added[kRight][i];
  }
  return PlanesOf(0);
}

absl::Status Builder::AddPad(Node& node) {
  ASSIGN_OR_RETURN(const std::string mode, node.attributes.String("mode", "constant"));
  ASSIGN_OR_RETURN(std::vector<PerProbe> pads, SidesOf(node, "pads", 1));
  if (node.Has(3)) {  // of some axes
    ASSIGN_OR_RETURN(const std::vector<int64_t> given, IntsOf(node, "", 3));
    ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ToAxes(given, 4));
    if (pads.size() != 2 * axes.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has pads ", Show(pads), " for axes ", List(given)));
    }
    std::vector<PerProbe> all(8, SameForAll(0));
    for (size_t i = 0; i < axes.size(); ++i) {
      all[axes[i]] = pads[i];
      all[axes[i] + 4] = pads[i + axes.size()];
    }
    pads = std::move(all);
  }
  const std::optional<Cut> added = PadsOf(pads);
  const absl::Status unsupported = absl::UnimplementedError(
      absl::StrCat("pads ", Show(pads), " are not supported, must be [0, 0, p, ",
                   "p, 0, 0, p, p] with at most ", kMaxPadPx));
  if (!added) return unsupported;
  PadMode pad_mode = PadMode::kConstant;
  if (mode == "edge") {
    pad_mode = PadMode::kReplicate;
  } else if (mode == "reflect") {
    pad_mode = PadMode::kReflect;
  } else if (mode != "constant") {
    return absl::UnimplementedError(
        absl::StrCat("mode ", Quote(mode), " is not supported, only constant, edge and reflect"));
  }
  ASSIGN_OR_RETURN(float filling, node.attributes.Float("value", 0));
  if (node.Has(2)) {
    ASSIGN_OR_RETURN(const TensorProto* constant, Constant(node, 2));
    ASSIGN_OR_RETURN(const std::vector<float> values, ReadFloats(*constant));
    if (values.size() > 1) return absl::InvalidArgumentError("has several values to fill with");
    if (!values.empty()) filling = values[0];
  }
  const auto cuts_off = [](const PerProbe& end) { return end[0] <= 0; };
  if (AreFixed(*added) && std::all_of(added->begin(), added->end(), cuts_off)) {
    ASSIGN_OR_RETURN(const Value* input, CutPlanes(node, 0));
    Cut more = *added;
    for (PerProbe& end : more) {
      for (int64_t& px : end) px = -px;
    }
    ASSIGN_OR_RETURN(Value cut, CutOff(*input, more));
    return SetCut(node, std::move(cut));
  }
  ASSIGN_OR_RETURN(const Value* input, Planes(node, 0));
  const int64_t padding_px = (*added)[kTop][0];
  const bool same = std::all_of(added->begin(), added->end(),
                                [&](const PerProbe& end) { return end == SameForAll(padding_px); });
  Layer layer = NewLayer(node, Op::kPad, {input});
  layer.pad_mode = pad_mode;
  layer.pad_value = filling;
  // A fixed size tells no difference between a border and an aligning one.
  if (!same && (!AreFixed(*added) || !free_size_)) {
    absl::StatusOr<Value> aligned = Aligned(*input, *added, std::move(layer));
    RETURN_IF_ERROR(aligned.status());
    return PassThrough(node, *std::move(aligned));
  }
  if (!same || padding_px > kMaxPadPx) return unsupported;
  layer.padding_px = static_cast<int>(padding_px);
  return Append(node, std::move(layer));
}

absl::StatusOr<Builder::Value*> Builder::CutPlanes(const Node& node, size_t i) {
  const bool cut =
      node.Has(i) && node.inputs[i]->form == Form::kComputed && HasCut(*node.inputs[i]);
  return cut ? node.inputs[i] : Planes(node, i);
}

absl::StatusOr<Builder::Value> Builder::CutOff(const Value& value, const Cut& more) const {
  Value result = value;
  Sides sides = sides_[value.layer];
  for (size_t end = 0; end < more.size(); ++end) {
    PerProbe& side = end == kTop || end == kBottom ? sides.height : sides.width;
    for (size_t i = 0; i < kProbes; ++i) {
      result.cut[end][i] += more[end][i];
      side[i] -= result.cut[end][i];
    }
    if (result.cut[end][0] < 0 || result.cut[end][0] > kMaxPadPx) {
      return absl::UnimplementedError(
          absl::StrCat("cuts off ", result.cut[end][0], " pixels, must be 0..", kMaxPadPx));
    }
  }
  result.view = ViewPlanes(Channels(value), sides.height, sides.width);
  return result;
}

// A crop as soon as all sides have it.
absl::Status Builder::SetCut(const Node& node, Value value) {
  if (IsWholeCut(value.cut)) RETURN_IF_ERROR(FinishCut(node.proto.output(0), value));
  return PassThrough(node, std::move(value));
}

absl::StatusOr<Builder::Value> Builder::SliceChannels(const std::string& name, Value value,
                                                      int64_t axis, int64_t start, int64_t end) {
  RETURN_IF_ERROR(FinishCut(name, value));
  const int64_t channels = Channels(value);
  if (!AreChannels(value.view, {axis}, Channels(value)) && axis == 1) {
    RETURN_IF_ERROR(Rearrange(name, value));
  }
  if (!AreChannels(value.view, {axis}, Channels(value)) || value.view[axis].size() > 1) {
    return absl::UnimplementedError(
        absl::StrCat("axis ", axis, " is not that of the channels, or of a part of them"));
  }
  const auto from_begin = [channels](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + channels : at, 0, channels);
  };
  const int64_t first = from_begin(start), behind = from_begin(end);
  if (first >= behind) {
    return absl::InvalidArgumentError(absl::StrCat("takes the channels from ", start, " to before ",
                                                   end, " of ", channels, ", which are none"));
  }
  if (behind - first == channels) return value;
  Layer layer = NewLayer(name, Op::kSlice, {&value});
  layer.first_channel = static_cast<int>(first);
  layer.out_channels = static_cast<int>(behind - first);
  value.view[axis].clear();
  if (behind - first > 1) value.view[axis] = {{Digit::kChannel, SameForAll(behind - first), 1}};
  ASSIGN_OR_RETURN(value.layer, AppendUnnamed(std::move(layer)));
  value.shared = false;
  return value;
}

// Channels, or the same off every side of the planes, in one node or in one for each axis.
absl::Status Builder::AddSlice(Node& node) {
  const bool computed = node.Has(0) && node.inputs[0]->form == Form::kComputed;
  if (!computed) return Tensor(node, 0).status();
  Value value = *node.inputs[0];
  ASSIGN_OR_RETURN(const std::vector<PerProbe> starts, SidesOf(node, "starts", 1));
  ASSIGN_OR_RETURN(const std::vector<PerProbe> ends, SidesOf(node, "ends", 2));
  ASSIGN_OR_RETURN(std::vector<int64_t> axes, IntsOf(node, "axes", 3));
  ASSIGN_OR_RETURN(const std::vector<int64_t> steps, IntsOf(node, "steps", 4));
  for (size_t i = 0; axes.size() < starts.size() && !node.Has(3) && !node.attributes.Has("axes");
       ++i) {
    axes.push_back(static_cast<int64_t>(i));
  }
  const absl::Status unsupported = absl::UnimplementedError(
      absl::StrCat("starts ", Show(starts), " ends ", Show(ends), " axes ", List(axes), " steps ",
                   List(steps), " are not supported, must cut the same number of pixels (0..",
                   kMaxPadPx, ") off every side"));
  const bool sound =
      starts.size() == ends.size() && starts.size() == axes.size() &&
      std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step == 1; });
  if (!sound) return unsupported;
  ASSIGN_OR_RETURN(axes, ToAxes(axes, value.view.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i];
    const PerProbe side = SideOf(value.view[axis]);
    const PerProbe first = Place(starts[i], side), behind = Place(ends[i], side);
    if (first == SameForAll(0) && behind == side) continue;
    if (value.view.size() == 4 && (axis == kRows || axis == kColumns)) {
      if (!HasCut(value) && !ArePlanes(value))
        RETURN_IF_ERROR(Rearrange(node.proto.output(0), value));
      Cut more = {};
      more[axis == kRows ? kTop : kLeft] = first;
      PerProbe& last = more[axis == kRows ? kBottom : kRight];
      for (size_t probe = 0; probe < kProbes; ++probe) last[probe] = side[probe] - behind[probe];
      const absl::StatusOr<Value> cut = CutOff(value, more);
      if (!cut.ok()) return unsupported;
      value = *cut;
      continue;
    }
    const bool fixed = starts[i] == SameForAll(starts[i][0]) && ends[i] == SameForAll(ends[i][0]);
    if (!fixed) return unsupported;
    ASSIGN_OR_RETURN(value, SliceChannels(node.proto.output(0), std::move(value), axis,
                                          starts[i][0], ends[i][0]));
  }
  return SetCut(node, std::move(value));
}

absl::Status Builder::AddSplit(Node& node) {
  ASSIGN_OR_RETURN(const Value* input, Tensor(node, 0));
  ASSIGN_OR_RETURN(const int64_t given, node.attributes.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, input->view.size()));
  ASSIGN_OR_RETURN(const std::vector<int64_t> wanted, IntsOf(node, "split", 1));
  const PerProbe side = SideOf(input->view[axis]);
  if (side != SameForAll(side[0])) {
    return absl::UnimplementedError(
        absl::StrCat("axis ", given, " is not supported, only that of the channels"));
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> parts,
                   SplitParts(node.attributes, wanted, node.proto.output_size(), side[0]));
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int output = static_cast<int>(i);
    ASSIGN_OR_RETURN(Value part, SliceChannels(node.proto.output(output), *input, axis, first,
                                               first + parts[i]));
    RETURN_IF_ERROR(SetOutput(node, std::move(part), output));
    first += parts[i];
  }
  return absl::OkStatus();
}

}  // namespace upscaled::onnx
