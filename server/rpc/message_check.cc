#include "server/rpc/message_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "server/base/error.h"

namespace upscaled::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Walks over the tags of one message, reading no value but lengths.
class FieldCounter {
 public:
  explicit FieldCounter(CodedInputStream& input) : input_(input) {}

  // False when the bytes are malformed, or the fields too many.
  bool Walk(const Descriptor& type) {
    while (true) {
      const uint32_t tag = input_.ReadTag();
      if (tag == 0) return input_.ConsumedEntireMessage();
      if (++fields_ > kMaxMessageFields || !WalkValue(tag, type)) return false;
    }
  }

  bool too_many() const { return fields_ > kMaxMessageFields; }

 private:
  bool WalkValue(uint32_t tag, const Descriptor& type) {
    uint64_t value = 0;
    uint32_t length = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        return input_.ReadVarint64(&value);
      case WireFormatLite::WIRETYPE_FIXED64:
        return input_.Skip(sizeof(uint64_t));
      case WireFormatLite::WIRETYPE_FIXED32:
        return input_.Skip(sizeof(uint32_t));
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        break;
      case WireFormatLite::WIRETYPE_START_GROUP:  // the fields in it follow; the parser pairs them
      case WireFormatLite::WIRETYPE_END_GROUP:
        return true;
      default:
        return false;
    }
    if (!input_.ReadVarint32(&length) || length > INT_MAX) return false;
    const FieldDescriptor* const field =
        type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE) {
      return input_.Skip(static_cast<int>(length));
    }
    const int left = input_.BytesUntilLimit();  // -1 without a limit
    if (left >= 0 && length > static_cast<uint32_t>(left)) return false;
    const CodedInputStream::Limit limit = input_.PushLimit(static_cast<int>(length));
    const bool walked = Walk(*field->message_type()) && input_.BytesUntilLimit() == 0;
    input_.PopLimit(limit);
    return walked;
  }

  CodedInputStream& input_;
  int fields_ = 0;
};

}  // namespace

absl::Status CheckFields(google::protobuf::io::ZeroCopyInputStream& bytes, const Descriptor& type) {
  CodedInputStream input(&bytes);
  FieldCounter counter(input);
  if (counter.Walk(type)) return absl::OkStatus();
  if (!counter.too_many()) return NoSuchMessage(type);
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kLimitExceeded,
                   absl::StrCat("the message has more than ", kMaxMessageFields,
                                " fields, the most there may be in a ", type.name()),
                   {{"limit", "message-fields"}, {"maximum", absl::StrCat(kMaxMessageFields)}});
}

absl::Status NoSuchMessage(const Descriptor& type) {
  return MakeError(absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidOption,
                   absl::StrCat("the message is malformed; it must be a ", type.full_name()));
}

}  // namespace upscaled::server
