#include "engine/model/onnx/axes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/quote.h"

namespace upscaled::onnx {

absl::StatusOr<int64_t> ToAxis(int64_t axis, size_t axes) {
  const auto count = static_cast<int64_t>(axes);
  if (axis >= -count && axis < count) return axis < 0 ? axis + count : axis;
  return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " is not one of ", axes));
}

absl::StatusOr<std::vector<int64_t>> ToAxes(const std::vector<int64_t>& given, size_t axes) {
  std::vector<int64_t> result;
  for (const int64_t axis : given) {
    ASSIGN_OR_RETURN(result.emplace_back(), ToAxis(axis, axes));
  }
  return result;
}

absl::StatusOr<std::vector<bool>> MarkAxes(const std::vector<int64_t>& named, size_t axes) {
  std::vector<bool> marked(axes, false);
  for (const int64_t given : named) {
    ASSIGN_OR_RETURN(const int64_t axis, ToAxis(given, axes));
    if (marked[axis]) {
      return absl::InvalidArgumentError(absl::StrCat("axes ", List(named), " have one twice"));
    }
    marked[axis] = true;
  }
  return marked;
}

absl::Status CheckPermutation(const std::vector<int64_t>& order, size_t axes) {
  RETURN_IF_ERROR(MarkAxes(order, axes).status());
  const bool each = order.size() == axes &&
                    std::all_of(order.begin(), order.end(), [](int64_t axis) { return axis >= 0; });
  if (each) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("perm ", List(order), " must have each of ", axes, " axes"));
}

absl::StatusOr<std::vector<int64_t>> SplitParts(Attributes& attributes,
                                                const std::vector<int64_t>& wanted, size_t outputs,
                                                int64_t side) {
  RETURN_IF_ERROR(attributes.Int("num_outputs", 0).status());
  const auto count = static_cast<int64_t>(outputs);
  std::vector<int64_t> parts = wanted;
  for (int64_t left = side; wanted.empty() && parts.size() < outputs;) {
    parts.push_back(std::min((side + count - 1) / count, left));
    left -= parts.back();
  }
  int64_t sum = 0;
  bool sound = parts.size() == outputs;
  for (const int64_t part : parts) {
    sound = sound && part >= 0 && part <= side;
    if (sound) sum += part;
  }
  if (sound && sum == side) return parts;
  return absl::InvalidArgumentError(
      absl::StrCat("splits ", side, " into ", List(parts), " for ", outputs, " outputs"));
}

}  // namespace upscaled::onnx
