#include "engine/model/pytorch/objects.h"

#include "absl/strings/str_cat.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {

absl::StatusOr<const Value*> Objects::Find(const Value& dict, std::string_view key) const {
  const Value* found = nullptr;
  if (dict.kind != Kind::kDict) return found;
  for (size_t i = 0; i < dict.elements.size(); i += 2) {
    const Value& candidate = values[dict.elements[i]];
    if (candidate.kind != Kind::kString || candidate.text != key) continue;
    if (found != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the key ", Quote(key), " is there twice"));
    }
    found = &values[dict.elements[i + 1]];
  }
  return found;
}

std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "None";
    case Kind::kNumber:
      return "a number";
    case Kind::kString:
      return "a string";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kList:
      return "a list";
    case Kind::kDict:
      return "a dictionary";
    case Kind::kGlobal:
      return "a class or function";
    case Kind::kStorage:
      return "a storage";
    case Kind::kTensor:
      return "a tensor";
  }
  return "unknown";
}

}  // namespace upscaled::pytorch
