// The tensors of a file of weights of any format: their descriptions, and their values on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace upscaled {

enum class TensorType : uint8_t { kF32, kF16, kBF16, kOther };

// Stands among TensorFile::others of nunif's files, and names their model.
inline constexpr char kNunifMark[] = "nunif_model";
// With it, if the model shrinks its result, or smooths the image first: no tensor tells.
inline constexpr char kNunifDownscaled[] = "swin_unet_downscaled";
inline constexpr char kNunifAntialias[] = "pre_antialias";

struct TensorInfo {
  std::vector<int64_t> shape;
  TensorType type = TensorType::kOther;
  std::string type_name;  // as the file has it
  size_t source = 0;      // where the format finds the values
};

// A format derives from it, and gives all tensors when it is made. Thread-compatible.
class TensorFile {
 public:
  virtual ~TensorFile() = default;

  const std::map<std::string, TensorInfo, std::less<>>& tensors() const { return tensors_; }
  // The names of other values among the tensors, such as marks.
  const std::set<std::string, std::less<>>& others() const { return others_; }
  bool Has(std::string_view name) const {
    return tensors_.contains(name) || others_.contains(name);
  }
  // Null without it.
  const TensorInfo* Find(std::string_view name) const;

  // Row-major, for any order in the file. NOT_FOUND: there is no such tensor. UNIMPLEMENTED: its
  // values are no readable floats. INVALID_ARGUMENT: the file is damaged. All name it.
  absl::StatusOr<std::vector<float>> Read(std::string_view name) const;

 protected:
  // INVALID_ARGUMENT: the name is taken, or the tensor is larger than limits.h allows.
  // RESOURCE_EXHAUSTED: there are kMaxTensors.
  absl::Status Add(std::string_view name, TensorInfo info);
  absl::Status AddOther(std::string_view name);
  // Drops beginnings of names from the way of training only ("module.").
  void DropWrappers();

 private:
  // Whether all names had one.
  bool DropWrapper();
  virtual absl::StatusOr<std::vector<float>> ReadValues(const TensorInfo& info) const = 0;

  std::map<std::string, TensorInfo, std::less<>> tensors_;
  std::set<std::string, std::less<>> others_;
};

// Bytes of one value; 0 for kOther.
size_t BytesPerValue(TensorType type);
// The values of `bytes`, one behind the other, and nothing else.
std::vector<float> ToFloats(std::string_view bytes, TensorType type);
// INVALID_ARGUMENT: too many axes, a negative one, or more than kMaxWeights values.
absl::StatusOr<int64_t> CountValues(std::span<const int64_t> shape);
// 64x3x3x3
std::string DescribeShape(std::span<const int64_t> shape);

}  // namespace upscaled
