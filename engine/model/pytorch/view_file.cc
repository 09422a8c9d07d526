#include "engine/model/pytorch/view_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/pytorch/state_dict.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

// How often a file's bytes may be in its tensors: some share a storage, and may overlap there.
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

// Whether its values lie one behind the other, in its order.
bool IsRowMajor(const TensorView& view) {
  int64_t stride = 1;
  for (size_t axis = view.shape.size(); axis-- > 0;) {
    if (view.shape[axis] != 1 && view.strides[axis] != stride) return false;
    stride *= view.shape[axis];
  }
  return true;
}

// One behind the last value of a nonempty view.
int64_t EndOf(const TensorView& view) {
  int64_t last = view.offset;
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    last += (view.shape[axis] - 1) * view.strides[axis];
  }
  return last + 1;
}

// From its first value to its last.
int64_t ReachOf(const TensorView& view, int64_t count) {
  return count == 0 ? 0 : EndOf(view) - view.offset;
}

// The values of `view`, in its order, of those that lie from its offset on.
std::vector<float> Gather(const TensorView& view, int64_t count, const std::vector<float>& values) {
  std::vector<float> gathered;
  gathered.reserve(count);
  const int64_t columns = view.shape.empty() ? 1 : view.shape.back();
  const int64_t stride = view.shape.empty() ? 1 : view.strides.back();
  ForEachRow(view, [&](int64_t begin) {
    const float* const row = values.data() + (begin - view.offset);
    for (int64_t i = 0; i < columns; ++i) gathered.push_back(row[i * stride]);
  });
  return gathered;
}

}  // namespace

absl::Status ViewFile::AddStateDict(Objects objects, size_t file_bytes) {
  objects_ = std::move(objects);
  max_bytes_ = kMaxShares * file_bytes;
  ASSIGN_OR_RETURN(const Value* dict, FindStateDict(objects_));
  for (size_t i = 0; i < dict->elements.size(); i += 2) {
    const Value& key = objects_.values[dict->elements[i]];
    const Value& value = objects_.values[dict->elements[i + 1]];
    if (key.kind != Kind::kString) continue;
    RETURN_IF_ERROR(value.kind == Kind::kTensor ? AddTensor(key.text, value.number)
                                                : AddOther(key.text));
  }
  DropWrappers();
  const Value& root = objects_.Root();
  if (root.kind != Kind::kDict || Has(kNunifMark)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Value* mark, objects_.Find(root, kNunifMark));
  return mark == nullptr ? absl::OkStatus() : AddNunifMarks(root);
}

absl::Status ViewFile::AddNunifMarks(const Value& root) {
  RETURN_IF_ERROR(AddOther(kNunifMark));
  ASSIGN_OR_RETURN(const Value* name, objects_.Find(root, "name"));
  const bool shrinks =
      name != nullptr && name->kind == Kind::kString && name->text.ends_with(kNunifDownscaled);
  if (shrinks) RETURN_IF_ERROR(AddOther(kNunifDownscaled));
  ASSIGN_OR_RETURN(const Value* arguments, objects_.Find(root, "kwargs"));
  if (arguments == nullptr || arguments->kind != Kind::kDict) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Value* smooths, objects_.Find(*arguments, kNunifAntialias));
  const bool set = smooths != nullptr && smooths->kind == Kind::kNumber && smooths->number != 0;
  return set ? AddOther(kNunifAntialias) : absl::OkStatus();
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
  // Neither passes the file's size, nor the sum five times that.
  ASSIGN_OR_RETURN(const int64_t count, CountValues(view.shape));
  viewed_bytes_ += ReachOf(view, count) * storage.value_bytes;
  if (viewed_bytes_ > max_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensors share storages so often that ", viewed_bytes_,
        " bytes are to be read, the limit is ", max_bytes_, ", ", kMaxShares, " times the file"));
  }
  const bool again = !viewed_.insert(storage.key).second;
  if (again && !shared_.contains(storage.key)) {
    ASSIGN_OR_RETURN(shared_[storage.key], ReadStorage(storage));
  }
  return Add(name, {.shape = view.shape,
                    .type = storage.type,
                    .type_name = std::string(storage.type_name),
                    .source = view_index});
}

absl::StatusOr<std::vector<float>> ViewFile::ReadValues(const TensorInfo& info) const {
  const TensorView& view = objects_.tensors[info.source];
  const Storage& storage = objects_.storages[view.storage];
  ASSIGN_OR_RETURN(const int64_t count, CountValues(info.shape));
  if (count == 0) return std::vector<float>();
  std::string own;
  const auto shared = shared_.find(storage.key);
  if (shared == shared_.end()) {
    ASSIGN_OR_RETURN(own, ReadStorage(storage));
  }
  const std::string_view bytes = shared == shared_.end() ? own : shared->second;
  // No more than the view reaches: storages may hold a whole network's values.
  std::vector<float> values = ToFloats(
      bytes.substr(view.offset * storage.value_bytes, ReachOf(view, count) * storage.value_bytes),
      info.type);
  if (IsRowMajor(view)) return values;
  return Gather(view, count, values);
}

}  // namespace upscaled::pytorch
