// Looks at a message before it is parsed: its size bounds its memory only while it has few fields.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "google/protobuf/message.h"

namespace upscaled::server {

// Fields of one message with those of its parts, known or not. Requests have 60 at most, and an
// unknown field of two bytes takes 40 bytes when it is parsed.
inline constexpr int kMaxMessageFields = 128;

// INVALID_ARGUMENT (kInvalidOption) when `bytes` are no message on the wire, or one of more than
// kMaxMessageFields; kLimitExceeded for those. Looks at the messages in known fields of `type`,
// too.
absl::Status CheckFields(google::protobuf::io::ZeroCopyInputStream& bytes,
                         const google::protobuf::Descriptor& type);

// INVALID_ARGUMENT (kInvalidOption): the bytes are no such message.
absl::Status NoSuchMessage(const google::protobuf::Descriptor& type);

}  // namespace upscaled::server
