// The common part of both kinds of PyTorch's files: tensors as views of storages.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/pytorch/objects.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled::pytorch {

class ViewFile : public TensorFile {
 protected:
  // Adds the tensors of the state_dict in `objects`, with their storages in the file of
  // `file_bytes`.
  absl::Status AddStateDict(Objects objects, size_t file_bytes);

 private:
  // The file's bytes of a storage, or INVALID_ARGUMENT.
  virtual absl::StatusOr<uint64_t> StorageBytes(const Storage& storage) const = 0;
  virtual absl::StatusOr<std::string> ReadStorage(const Storage& storage) const = 0;

  // Facts in a file of nunif besides its tensors.
  absl::Status AddNunifMarks(const Value& root);
  absl::Status AddTensor(std::string_view name, size_t view_index);
  absl::StatusOr<std::vector<float>> ReadValues(const TensorInfo& info) const override;

  Objects objects_;
  std::set<std::string_view> viewed_;               // keys of storages that tensors are views of
  std::map<std::string_view, std::string> shared_;  // bytes of those that several are, by key
  uint64_t viewed_bytes_ = 0;                       // from each tensor's first value to its last
  uint64_t max_bytes_ = 0;
};

}  // namespace upscaled::pytorch
