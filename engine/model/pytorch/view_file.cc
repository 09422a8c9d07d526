#include "engine/model/pytorch/view_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/pytorch/state_dict.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

// How often a file's bytes may be read for its tensors: some share a storage, and all of it is read
// for each.
constexpr uint64_t kMaxShares = 4;

// Where the values of `view` lie in its storage, row by row, one of the last axis.
template <typename Function>
void ForEachRow(const TensorView& view, Function function) {
  const size_t outer = view.shape.empty() ? 0 : view.shape.size() - 1;
  std::vector<int64_t> index(outer, 0);
  for (;;) {
    int64_t begin = view.offset;
    for (size_t axis = 0; axis < outer; ++axis) begin += index[axis] * view.strides[axis];
    function(begin);
    size_t axis = outer;
    while (axis > 0 && ++index[axis - 1] == view.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// What is left of the storage's values when only those of `view` are taken, in its order.
std::vector<float> Gather(const TensorView& view, int64_t count, const std::vector<float>& values) {
  std::vector<float> gathered;
  if (count == 0) return gathered;
  gathered.reserve(count);
  const int64_t columns = view.shape.empty() ? 1 : view.shape.back();
  const int64_t stride = view.shape.empty() ? 1 : view.strides.back();
  ForEachRow(view, [&](int64_t begin) {
    for (int64_t i = 0; i < columns; ++i) gathered.push_back(values[begin + i * stride]);
  });
  return gathered;
}

}  // namespace

absl::Status ViewFile::AddStateDict(Objects objects, size_t file_bytes) {
  objects_ = std::move(objects);
  most_bytes_ = kMaxShares * file_bytes;
  ASSIGN_OR_RETURN(const Value* dict, FindStateDict(objects_));
  for (size_t i = 0; i < dict->elements.size(); i += 2) {
    const Value& key = objects_.values[dict->elements[i]];
    const Value& value = objects_.values[dict->elements[i + 1]];
    if (key.kind != Kind::kString) continue;
    RETURN_IF_ERROR(value.kind == Kind::kTensor ? AddTensor(key.text, value.number)
                                                : AddOther(key.text));
  }
  DropWrappers();
  return absl::OkStatus();
}

absl::Status ViewFile::AddTensor(std::string_view name, size_t view_index) {
  const TensorView& view = objects_.tensors[view_index];
  const Storage& storage = objects_.storages[view.storage];
  ASSIGN_OR_RETURN(const uint64_t bytes, StorageBytes(storage));
  if (bytes % storage.value_bytes != 0 ||
      bytes / storage.value_bytes != static_cast<uint64_t>(storage.count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("storage ", Quote(storage.key), " of ", storage.count, " values of ",
                     storage.value_bytes, " bytes has ", bytes, " bytes in the file"));
  }
  viewed_bytes_ += bytes;  // neither passes the file's size, nor the sum four times that
  if (viewed_bytes_ > most_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensors share storages so often that ", viewed_bytes_,
        " bytes are to be read, the limit is ", most_bytes_, ", ", kMaxShares, " times the file"));
  }
  return Add(name, {.shape = view.shape,
                    .type = storage.type,
                    .type_name = std::string(storage.type_name),
                    .source = view_index});
}

absl::StatusOr<std::vector<float>> ViewFile::ReadValues(const TensorInfo& info) const {
  const TensorView& view = objects_.tensors[info.source];
  const Storage& storage = objects_.storages[view.storage];
  ASSIGN_OR_RETURN(const std::string bytes, ReadStorage(storage));
  ASSIGN_OR_RETURN(const int64_t count, CountValues(info.shape));
  const std::vector<float> values = ToFloats(bytes, info.type);
  return Gather(view, count, values);
}

}  // namespace upscaled::pytorch
