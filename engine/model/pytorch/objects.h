// The values of a pickle of weights, once it is read: they refer to each other by index, so no
// nesting and no cycle costs a reader its stack.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/tensors/tensor_file.h"

namespace upscaled::pytorch {

enum class Kind : uint8_t {
  kNone,
  kNumber,  // whole or not, true or false
  kString,
  kTuple,
  kList,
  kDict,
  kGlobal,   // the name of a class or a function
  kStorage,  // Objects::storages
  kTensor,   // Objects::tensors
};

struct Value {
  Kind kind = Kind::kNone;
  int64_t number = 0;         // kNumber, cut to a whole one; the index of what other kinds refer to
  std::string_view text;      // kString
  std::vector<int> elements;  // kTuple, kList; kDict: a key and its value in turns
};

// Values in a row, for tensors as their views.
struct Storage {
  std::string_view key;  // which of the file's
  TensorType type = TensorType::kOther;
  std::string_view type_name;
  uint64_t value_bytes = 1;
  int64_t count = 0;
};

struct TensorView {
  size_t storage = 0;
  int64_t offset = 0;  // these three in values
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
};

// Borrows the pickle's bytes.
struct Objects {
  std::vector<Value> values;
  std::vector<Storage> storages;
  std::vector<TensorView> tensors;
  int root = 0;           // the value that the pickle is of
  size_t read_bytes = 0;  // of what was given: several pickles may follow each other

  const Value& Root() const { return values[root]; }
  // The value of a string key of a dictionary, or null. INVALID_ARGUMENT: it is there twice.
  absl::StatusOr<const Value*> Find(const Value& dict, std::string_view key) const;
};

std::string_view KindName(Kind kind);

}  // namespace upscaled::pytorch
