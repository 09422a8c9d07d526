#include "engine/model/pytorch/state_dict.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "engine/model/quote.h"

namespace upscaled::pytorch {
namespace {

// Best first: weights averaged over the training before those of its last step.
constexpr std::string_view kNames[] = {"params_ema",
                                       "params-ema",
                                       "state_dict_ema",
                                       "model_ema",
                                       "ema_state_dict",
                                       "g_ema",
                                       "generator_ema",
                                       "netG_ema",
                                       "net_g_ema",
                                       "ema",
                                       "params",
                                       "state_dict",
                                       "model_state_dict",
                                       "model",
                                       "net",
                                       "generator",
                                       "generator_state_dict",
                                       "netG",
                                       "net_g"};
constexpr int kMaxDepth = 4;

bool HoldsTensors(const Objects& objects, const Value& dict) {
  for (size_t i = 1; i < dict.elements.size(); i += 2) {
    if (objects.values[dict.elements[i]].kind == Kind::kTensor) return true;
  }
  return false;
}

// The only dictionary of tensors among the values of `dict`, or its only value; null: none.
const Value* OnlyOne(const Objects& objects, const Value& dict) {
  const Value* found = nullptr;
  for (size_t i = 1; i < dict.elements.size(); i += 2) {
    const Value& value = objects.values[dict.elements[i]];
    if (value.kind != Kind::kDict || !HoldsTensors(objects, value)) continue;
    if (found != nullptr) return nullptr;
    found = &value;
  }
  if (found != nullptr || dict.elements.size() != 2) return found;
  const Value& only = objects.values[dict.elements[1]];
  return only.kind == Kind::kDict ? &only : nullptr;
}

// The dictionary of tensors in `dict`, at most `depth` dictionaries deep; null: none.
// `seen`: those that were looked into, once each, since they may hold each other.
absl::StatusOr<const Value*> FindTensors(const Objects& objects, const Value& dict, int depth,
                                         std::set<const Value*>& seen) {
  if (dict.kind != Kind::kDict || depth == 0 || !seen.insert(&dict).second) return nullptr;
  if (HoldsTensors(objects, dict)) return &dict;
  for (const std::string_view name : kNames) {
    ASSIGN_OR_RETURN(const Value* inner, objects.Find(dict, name));
    if (inner == nullptr) continue;
    ASSIGN_OR_RETURN(const Value* found, FindTensors(objects, *inner, depth - 1, seen));
    if (found != nullptr) return found;
  }
  const Value* const only = OnlyOne(objects, dict);
  if (only == nullptr) return nullptr;
  return FindTensors(objects, *only, depth - 1, seen);
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
  const Value& root = objects.Root();
  if (root.kind != Kind::kDict) {
    return absl::UnimplementedError(
        absl::StrCat("holds ", ToAbsl(KindName(root.kind)), ", must hold a state_dict: save one"));
  }
  std::set<const Value*> seen;
  ASSIGN_OR_RETURN(const Value* found, FindTensors(objects, root, kMaxDepth, seen));
  if (found != nullptr) return found;
  return absl::UnimplementedError(
      absl::StrCat("holds no tensors by name, only ", DescribeKeys(objects, root)));
}

}  // namespace upscaled::pytorch
