// A file of weights with one tensor changed, as a hostile file may have it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/tensors/tensor_file.h"
#include "tests/support/test_image.h"

namespace upscaled::test {

// Has another shape, or the same value everywhere.
struct WeightsChange {
  std::string tensor;
  std::vector<int64_t> shape;
  std::optional<float> value;

  std::string Describe() const {
    return absl::StrCat(tensor, " of ", DescribeShape(shape),
                        value ? absl::StrCat(", all ", *value) : "");
  }
};

// Returns any change of any tensor of the file.
inline WeightsChange RandomChange(const TensorFile& file, std::mt19937& random) {
  constexpr int64_t kSides[] = {0,  1,       2,    3,    7,    31,      32,
                                33, 63 * 63, 4096, 8192, 8193, 1 << 20, 99'999'999};
  constexpr float kValues[] = {0, -1, 1e9f, -1e9f, 1e30f, -1e30f, NAN, INFINITY};
  const auto any = [&random](const auto& list) -> const auto& {
    return *std::next(std::begin(list),
                      RandomInt(random, 0, static_cast<int>(std::size(list)) - 1));
  };
  const auto& [name, info] = any(file.tensors());
  WeightsChange change{name, info.shape, std::nullopt};
  const int kind = RandomInt(random, 0, 5);
  const int axis = RandomInt(random, 0, std::max(static_cast<int>(change.shape.size()) - 1, 0));
  if (kind == 0 || change.shape.empty()) {
    change.value = any(kValues);
  } else if (kind == 1) {
    change.shape.pop_back();
  } else if (kind == 2) {
    change.shape.push_back(1);
  } else if (kind == 3) {
    change.shape[axis] *= RandomInt(random, 2, 64);
  } else {
    change.shape[axis] = any(kSides);
  }
  return change;
}

// Borrows the file.
class ChangedFile : public TensorFile {
 public:
  // The error that a parser of the changed file would give.
  static absl::StatusOr<std::unique_ptr<ChangedFile>> Create(const TensorFile& file,
                                                             WeightsChange change) {
    auto changed = std::unique_ptr<ChangedFile>(new ChangedFile(file, std::move(change)));
    RETURN_IF_ERROR(changed->AddAll());
    return changed;
  }

  // Values that were read of it.
  int64_t values_read() const { return values_read_; }

 private:
  ChangedFile(const TensorFile& file, WeightsChange change)
      : file_(file), change_(std::move(change)) {}

  absl::Status AddAll() {
    for (const std::string& other : file_.others()) RETURN_IF_ERROR(AddOther(other));
    for (const auto& [name, info] : file_.tensors()) {
      TensorInfo own = info;
      if (name == change_.tensor) own.shape = change_.shape;
      own.source = names_.size();
      names_.push_back(name);
      RETURN_IF_ERROR(Add(name, std::move(own)));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<float>> ReadValues(const TensorInfo& info) const override {
    ASSIGN_OR_RETURN(const int64_t count, CountValues(info.shape));
    values_read_ += count;
    const std::string& name = names_[info.source];
    if (name != change_.tensor) return file_.Read(name);
    return std::vector<float>(count, change_.value.value_or(0.5f));
  }

  const TensorFile& file_;
  const WeightsChange change_;
  std::vector<std::string> names_;  // index: TensorInfo::source
  mutable int64_t values_read_ = 0;
};

}  // namespace upscaled::test
