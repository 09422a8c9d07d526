// An error with the name of its object.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace upscaled {

// Returns `error`, not OK, with another message and all of its payloads.
inline absl::Status WithMessage(const absl::Status& error, absl::string_view message) {
  absl::Status other(error.code(), message);
  error.ForEachPayload([&other](absl::string_view url, const absl::Cord& payload) {
    other.SetPayload(url, payload);
  });
  return other;
}

// The same with `prefix` before its message.
inline absl::Status WithPrefix(absl::string_view prefix, const absl::Status& error) {
  return WithMessage(error, absl::StrCat(prefix, error.message()));
}

// The same with `suffix` behind its message.
inline absl::Status WithSuffix(const absl::Status& error, absl::string_view suffix) {
  return WithMessage(error, absl::StrCat(error.message(), suffix));
}

}  // namespace upscaled
