#include "engine/model/pytorch/state_dict.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

// Best first: weights averaged over the training before those of its last step.
constexpr std::string_view kNames[] = {"params_ema",       "params-ema", "params", "state_dict",
                                       "model_state_dict", "model",      "net"};
constexpr int kMaxDepth = 4;

bool HoldsTensors(const Objects& objects, const Value& dict) {
  for (size_t i = 1; i < dict.elements.size(); i += 2) {
    if (objects.values[dict.elements[i]].kind == Kind::kTensor) return true;
  }
  return false;
}

// The dictionary inside `dict` under one of the names, or its only value; null: none.
absl::StatusOr<const Value*> Inner(const Objects& objects, const Value& dict) {
  for (const std::string_view name : kNames) {
    ASSIGN_OR_RETURN(const Value* inner, objects.Find(dict, name));
    if (inner != nullptr && inner->kind == Kind::kDict) return inner;
  }
  if (dict.elements.size() != 2) return nullptr;
  const Value& only = objects.values[dict.elements[1]];
  return only.kind == Kind::kDict ? &only : nullptr;
}

std::string DescribeKeys(const Objects& objects, const Value& dict) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < dict.elements.size(); i += 2) {
    const Value& key = objects.values[dict.elements[i]];
    if (key.kind == Kind::kString) keys.push_back(Quote(key.text));
  }
  return keys.empty() ? "nothing that has a name" : List(keys);
}

}  // namespace

absl::StatusOr<const Value*> FindStateDict(const Objects& objects) {
  const Value* dict = &objects.Root();
  for (int depth = 0; depth < kMaxDepth && dict->kind == Kind::kDict; ++depth) {
    if (HoldsTensors(objects, *dict)) return dict;
    ASSIGN_OR_RETURN(const Value* inner, Inner(objects, *dict));
    if (inner == nullptr) break;
    dict = inner;
  }
  if (dict->kind != Kind::kDict) {
    return absl::UnimplementedError(
        absl::StrCat("holds ", ToAbsl(KindName(dict->kind)), ", must hold a state_dict"));
  }
  return absl::UnimplementedError(
      absl::StrCat("holds no tensors by name, only ", DescribeKeys(objects, *dict)));
}

}  // namespace upscaled::pytorch
