#include "engine/model/tensors/tensor_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/model/half.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they are stored");

// Before the names of a network that was trained on several devices, that was compiled, of one of
// two that were trained together, of what PyTorch Lightning trains, and of a dictionary of them.
constexpr std::string_view kWrappers[] = {"module.",     "_orig_mod.", "netG.",
                                          "net_g.",      "generator.", "model.",
                                          "params_ema.", "params.",    "state_dict."};
// Old ESRGAN has modules of that name itself, and this one first.
constexpr std::string_view kOwnName = "model.0.weight";

absl::Status OfTensor(std::string_view name, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("tensor ", Quote(name), ": ", status.message()));
}

template <typename Stored, typename Convert>
std::vector<float> ConvertAll(std::string_view bytes, Convert convert) {
  std::vector<float> values(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, bytes.data() + i * sizeof stored, sizeof stored);
    values[i] = convert(stored);
  }
  return values;
}

}  // namespace

const TensorInfo* TensorFile::Find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

absl::StatusOr<std::vector<float>> TensorFile::Read(std::string_view name) const {
  const TensorInfo* info = Find(name);
  if (info == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no tensor ", Quote(name)));
  }
  if (info->type == TensorType::kOther) {
    return OfTensor(name,
                    absl::UnimplementedError(absl::StrCat(
                        "has the type ", Quote(info->type_name),
                        ", supported are floats of 32 and 16 bits: save it as one of these")));
  }
  absl::StatusOr<std::vector<float>> values = ReadValues(*info);
  if (!values.ok()) return OfTensor(name, values.status());
  return values;
}

absl::Status TensorFile::Add(std::string_view name, TensorInfo info) {
  const absl::StatusOr<int64_t> count = CountValues(info.shape);
  if (!count.ok()) return OfTensor(name, count.status());
  if (tensors_.size() == kMaxTensors) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the file has more than ", kMaxTensors, " tensors, the limit"));
  }
  if (!Has(name)) {
    tensors_.emplace(name, std::move(info));
    return absl::OkStatus();
  }
  return OfTensor(name, absl::InvalidArgumentError("is there twice"));
}

absl::Status TensorFile::AddOther(std::string_view name) {
  if (!Has(name)) {
    others_.emplace(name);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("value ", Quote(name), " is there twice"));
}

void TensorFile::DropWrappers() {
  // Counts how many networks the averaged one is of.
  if (const auto count = tensors_.find("n_averaged"); count != tensors_.end()) {
    tensors_.erase(count);
  }
  // Wrappers lie in each other in any order.
  while (!tensors_.empty() && DropWrapper()) {
  }
}

bool TensorFile::DropWrapper() {
  for (const std::string_view wrapper : kWrappers) {
    const bool all = std::all_of(tensors_.begin(), tensors_.end(), [wrapper](const auto& tensor) {
      return tensor.first.size() > wrapper.size() && tensor.first.starts_with(wrapper);
    });
    if (!all || (kOwnName.starts_with(wrapper) && Has(kOwnName))) continue;
    std::map<std::string, TensorInfo, std::less<>> unwrapped;
    for (auto& [name, info] : tensors_) {
      unwrapped.emplace(name.substr(wrapper.size()), std::move(info));
    }
    tensors_ = std::move(unwrapped);
    return true;
  }
  return false;
}

size_t BytesPerValue(TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return 4;
    case TensorType::kF16:
    case TensorType::kBF16:
      return 2;
    case TensorType::kOther:
      return 0;
  }
  return 0;
}

std::vector<float> ToFloats(std::string_view bytes, TensorType type) {
  switch (type) {
    case TensorType::kF32:
      return ConvertAll<float>(bytes, [](float value) { return value; });
    case TensorType::kF16:
      return ConvertAll<uint16_t>(bytes, HalfToFloat);
    case TensorType::kBF16:
      return ConvertAll<uint16_t>(bytes, Bfloat16ToFloat);
    case TensorType::kOther:
      break;
  }
  return {};
}

absl::StatusOr<int64_t> CountValues(std::span<const int64_t> shape) {
  if (shape.size() > kMaxTensorAxes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", shape.size(), " axes, the limit is ", kMaxTensorAxes));
  }
  int64_t count = 1;
  for (const int64_t side : shape) {
    // Neither product nor factor passes 2^27, so nothing overflows.
    if (side < 0 || side > kMaxWeights || (count *= side) > kMaxWeights) {
      return absl::InvalidArgumentError(absl::StrCat("has the shape ", DescribeShape(shape),
                                                     ", must have 0..", kMaxWeights, " values"));
    }
  }
  return count;
}

std::string DescribeShape(std::span<const int64_t> shape) {
  if (shape.empty()) return "a scalar";
  if (shape.size() > kMaxTensorAxes) return absl::StrCat(shape.size(), " axes");
  return absl::StrJoin(shape, "x");
}

}  // namespace upscaled
