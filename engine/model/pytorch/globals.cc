#include "engine/model/pytorch/globals.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/limits.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

constexpr size_t kMaxArguments = 8;
constexpr size_t kMaxStorageKeyBytes = 64;               // PyTorch writes numbers
constexpr int64_t kMaxStorageValues = int64_t{1} << 40;  // no file is as large

struct Global {
  std::string_view module, name;
  // Null: a class of storages, named and not called.
  absl::StatusOr<Value> (*call)(const std::vector<const Value*>& arguments, Objects& objects);
  // The type and size of a storage's values.
  TensorType type = TensorType::kOther;
  uint64_t value_bytes = 0;
};

absl::Status BadArguments(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("must be called with ", what));
}

bool AreAll(Kind kind, std::initializer_list<const Value*> values) {
  return std::all_of(values.begin(), values.end(),
                     [kind](const Value* value) { return value->kind == kind; });
}

absl::StatusOr<std::vector<int64_t>> ToNumbers(const Value& tuple, const Objects& objects) {
  if (tuple.elements.size() > kMaxTensorAxes) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor has ", tuple.elements.size(),
                                                   " axes, the limit is ", kMaxTensorAxes));
  }
  std::vector<int64_t> numbers;
  for (const int element : tuple.elements) {
    const Value& value = objects.values[element];
    if (value.kind != Kind::kNumber) return BadArguments("sizes and strides that are numbers");
    numbers.push_back(value.number);
  }
  return numbers;
}

// Checks each value of the tensor: inside its storage, and there only once.
absl::Status CheckInside(const TensorView& tensor, const Storage& storage) {
  ASSIGN_OR_RETURN(const int64_t count, CountValues(tensor.shape));
  if (tensor.strides.size() != tensor.shape.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor of ", DescribeShape(tensor.shape),
                                                   " has ", tensor.strides.size(), " strides"));
  }
  if (tensor.offset < 0 || tensor.offset > storage.count) {
    return absl::InvalidArgumentError(absl::StrCat("a tensor begins at value ", tensor.offset,
                                                   " of a storage of ", storage.count));
  }
  if (count == 0) return absl::OkStatus();
  int64_t last = tensor.offset;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t stride = tensor.strides[axis];
    // Neither factor passes 2^27, nor the offset 2^40, so nothing overflows.
    if (stride < 0 || stride > kMaxWeights) {
      return absl::InvalidArgumentError(
          absl::StrCat("a tensor has the stride ", stride, ", must be 0..", kMaxWeights));
    }
    last += (tensor.shape[axis] - 1) * stride;
  }
  if (last < storage.count && count <= storage.count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a tensor of ", DescribeShape(tensor.shape), " with strides ", List(tensor.strides), " at ",
      tensor.offset, " does not lie within its storage of ", storage.count, " values"));
}

// (storage, offset, size, stride, ...): the others concern training.
absl::StatusOr<Value> RebuildTensor(const std::vector<const Value*>& arguments, Objects& objects) {
  const bool sound =
      arguments.size() >= 4 && arguments.size() <= 7 && AreAll(Kind::kStorage, {arguments[0]}) &&
      AreAll(Kind::kNumber, {arguments[1]}) && AreAll(Kind::kTuple, {arguments[2], arguments[3]});
  if (!sound) return BadArguments("a storage, an offset, a size and strides");
  TensorView tensor{.storage = static_cast<size_t>(arguments[0]->number),
                    .offset = arguments[1]->number};
  ASSIGN_OR_RETURN(tensor.shape, ToNumbers(*arguments[2], objects));
  ASSIGN_OR_RETURN(tensor.strides, ToNumbers(*arguments[3], objects));
  RETURN_IF_ERROR(CheckInside(tensor, objects.storages[tensor.storage]));
  objects.tensors.push_back(std::move(tensor));
  return Value{.kind = Kind::kTensor, .number = static_cast<int64_t>(objects.tensors.size()) - 1};
}

// (tensor, ...)
absl::StatusOr<Value> RebuildParameter(const std::vector<const Value*>& arguments, Objects&) {
  if (arguments.empty() || arguments.size() > 4 || arguments[0]->kind != Kind::kTensor) {
    return BadArguments("a tensor");
  }
  return *arguments[0];
}

absl::StatusOr<Value> MakeDict(const std::vector<const Value*>& arguments, Objects&) {
  if (arguments.empty()) return Value{.kind = Kind::kDict};
  return BadArguments("nothing");
}

constexpr Global kGlobals[] = {
    {"torch._utils", "_rebuild_tensor_v2", RebuildTensor},
    {"torch._utils", "_rebuild_tensor", RebuildTensor},
    {"torch._utils", "_rebuild_parameter", RebuildParameter},
    {"collections", "OrderedDict", MakeDict},
    {"torch", "FloatStorage", nullptr, TensorType::kF32, 4},
    {"torch", "HalfStorage", nullptr, TensorType::kF16, 2},
    {"torch", "BFloat16Storage", nullptr, TensorType::kBF16, 2},
    // Counters next to the weights; refused at their reads.
    {"torch", "DoubleStorage", nullptr, TensorType::kOther, 8},
    {"torch", "LongStorage", nullptr, TensorType::kOther, 8},
    {"torch", "IntStorage", nullptr, TensorType::kOther, 4},
    {"torch", "ShortStorage", nullptr, TensorType::kOther, 2},
    {"torch", "CharStorage", nullptr, TensorType::kOther, 1},
    {"torch", "ByteStorage", nullptr, TensorType::kOther, 1},
    {"torch", "BoolStorage", nullptr, TensorType::kOther, 1},
};

}  // namespace

absl::StatusOr<Value> FindGlobal(std::string_view module, std::string_view name) {
  const auto found = std::find_if(std::begin(kGlobals), std::end(kGlobals), [&](const Global& g) {
    return g.module == module && g.name == name;
  });
  if (found != std::end(kGlobals)) {
    return Value{.kind = Kind::kGlobal, .number = found - std::begin(kGlobals)};
  }
  return absl::UnimplementedError(
      absl::StrCat("the pickle names ", Quote(absl::StrCat(ToAbsl(module), ".", ToAbsl(name))),
                   ", which no file of weights needs; it is not executed (save a state_dict)"));
}

absl::StatusOr<Value> Call(const Value& callee, const Value& arguments, Objects& objects) {
  if (callee.kind != Kind::kGlobal || arguments.kind != Kind::kTuple) {
    return absl::InvalidArgumentError(absl::StrCat("the pickle calls ",
                                                   ToAbsl(KindName(callee.kind)), " with ",
                                                   ToAbsl(KindName(arguments.kind))));
  }
  const Global& global = kGlobals[callee.number];
  const std::string name = absl::StrCat(ToAbsl(global.module), ".", ToAbsl(global.name));
  if (global.call == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the pickle calls the class ", name));
  }
  if (arguments.elements.size() > kMaxArguments) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pickle calls ", name, " with ", arguments.elements.size(), " values"));
  }
  std::vector<const Value*> values;
  for (const int element : arguments.elements) values.push_back(&objects.values[element]);
  absl::StatusOr<Value> result = global.call(values, objects);
  if (result.ok()) return result;
  return absl::Status(result.status().code(), absl::StrCat(name, ": ", result.status().message()));
}

absl::StatusOr<Value> LoadPersistent(const Value& id, Objects& objects) {
  const auto element = [&](size_t i) -> const Value& { return objects.values[id.elements[i]]; };
  // The sixth is a view of an older kind, or None.
  const bool sound =
      id.kind == Kind::kTuple && (id.elements.size() == 5 || id.elements.size() == 6) &&
      AreAll(Kind::kString, {&element(0), &element(2), &element(3)}) &&
      element(0).text == "storage" && element(1).kind == Kind::kGlobal &&
      kGlobals[element(1).number].call == nullptr && element(4).kind == Kind::kNumber &&
      (id.elements.size() == 5 || element(5).kind == Kind::kNone);
  if (!sound) {
    return absl::InvalidArgumentError(
        "the pickle refers to something beside it that is no storage");
  }
  if (element(2).text.size() > kMaxStorageKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a storage's key has ", element(2).text.size(),
                                                   " bytes, must be at most ",
                                                   kMaxStorageKeyBytes));
  }
  const Global& global = kGlobals[element(1).number];
  const Storage storage{.key = element(2).text,
                        .type = global.type,
                        .type_name = global.name,
                        .value_bytes = global.value_bytes,
                        .count = element(4).number};
  if (storage.count < 0 || storage.count > kMaxStorageValues) {
    return absl::InvalidArgumentError(absl::StrCat("storage ", Quote(storage.key), " has ",
                                                   storage.count, " values, must be 0..",
                                                   kMaxStorageValues));
  }
  objects.storages.push_back(storage);
  return Value{.kind = Kind::kStorage, .number = static_cast<int64_t>(objects.storages.size()) - 1};
}

}  // namespace upscaled::pytorch
