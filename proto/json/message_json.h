// The contract's messages as JSON in the dialect of all our answers: the contract's field names,
// numbers as numbers, values of enums by their short names ("png", "strip-location"), durations as
// seconds ("total_seconds": 0.25).
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace upscaled {

// Returns the message on one line, or indented; defaults are printed.
std::string MessageToJson(const google::protobuf::Message& message, bool indented = false);

// Reads a message in this dialect or in protobuf's own (int64 as text, "IMAGE_FORMAT_PNG",
// "total": "0.25s"), which older servers write. Passes over unknown fields. Returns false for texts
// that are no such message.
bool ReadMessageJson(absl::string_view json, google::protobuf::Message& message);

}  // namespace upscaled
