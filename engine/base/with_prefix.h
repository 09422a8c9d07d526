// An error with the name of its object.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace upscaled {

// Returns `error`, not OK, with `prefix` before its message and all of its payloads.
inline absl::Status WithPrefix(absl::string_view prefix, const absl::Status& error) {
  absl::Status prefixed(error.code(), absl::StrCat(prefix, error.message()));
  error.ForEachPayload([&prefixed](absl::string_view url, const absl::Cord& payload) {
    prefixed.SetPayload(url, payload);
  });
  return prefixed;
}

}  // namespace upscaled
