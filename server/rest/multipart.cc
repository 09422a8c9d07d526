#include "server/rest/multipart.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "engine/base/string_view.h"
#include "server/rest/form.h"

namespace upscaled::server {
namespace {

constexpr char kType[] = "multipart/form-data";
constexpr size_t kMaxBoundaryBytes = 70;
constexpr size_t kMaxPartHeaderBytes = size_t{8} << 10;
constexpr size_t kMaxPaddingBytes = 1024;  // white space after a boundary

absl::Status EndsEarly() { return InvalidForm("the multipart body ends before its last boundary"); }

bool IsBoundaryCharacter(char c) {
  constexpr std::string_view kMarks = "'()+_,-./:=? ";
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         kMarks.find(c) != std::string_view::npos;
}

// A parameter's value at the beginning of `rest`. Afterwards `rest` begins behind it.
std::string TakeValue(absl::string_view& rest) {
  std::string value;
  if (rest.empty() || rest.front() != '"') {
    const size_t end = std::min(rest.find(';'), rest.size());
    value = std::string(absl::StripAsciiWhitespace(rest.substr(0, end)));
    rest.remove_prefix(end);
    return value;
  }
  size_t i = 1;
  for (; i < rest.size() && rest[i] != '"'; ++i) {
    // Browsers escape quotes as %22 and keep backslashes; curl writes \" and "\\".
    if (rest[i] == '\\' && i + 1 < rest.size() && (rest[i + 1] == '"' || rest[i + 1] == '\\')) ++i;
    value.push_back(rest[i]);
  }
  rest.remove_prefix(std::min(i + 1, rest.size()));
  return value;
}

// The value of a parameter of "type; name=value; name=\"value\""; the first of this name.
std::optional<std::string> HeaderParameter(absl::string_view field, absl::string_view wanted) {
  absl::string_view rest = field.substr(std::min(field.find(';'), field.size()));
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the semicolon
    const size_t end = std::min(rest.find_first_of("=;"), rest.size());
    const absl::string_view name = absl::StripAsciiWhitespace(rest.substr(0, end));
    rest.remove_prefix(end);
    std::string value;
    if (!rest.empty() && rest.front() == '=') {
      rest.remove_prefix(1);
      rest = absl::StripLeadingAsciiWhitespace(rest);
      value = TakeValue(rest);
    }
    if (absl::EqualsIgnoreCase(name, wanted)) return value;
    rest.remove_prefix(std::min(rest.find(';'), rest.size()));
  }
  return std::nullopt;
}

absl::string_view TypeOf(absl::string_view field) {
  return absl::StripAsciiWhitespace(field.substr(0, std::min(field.find(';'), field.size())));
}

absl::StatusOr<MultipartPart> ParsePart(const std::string& header) {
  MultipartPart part;
  bool disposed = false;
  for (const absl::string_view line : absl::StrSplit(header, "\r\n", absl::SkipEmpty())) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) {
      return InvalidForm("a part of the multipart body has a header line without a colon");
    }
    const absl::string_view name = line.substr(0, colon);
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    if (absl::EqualsIgnoreCase(name, "content-type")) part.content_type = std::string(value);
    if (!absl::EqualsIgnoreCase(name, "content-disposition")) continue;
    disposed = absl::EqualsIgnoreCase(TypeOf(value), "form-data");
    part.name = HeaderParameter(value, "name").value_or("");
    part.file_name = HeaderParameter(value, "filename");
  }
  if (disposed && !part.name.empty()) return part;
  return InvalidForm(
      "a part of the multipart body has no Content-Disposition of form-data with a name");
}

}  // namespace

bool IsMultipart(std::string_view content_type) {
  return absl::EqualsIgnoreCase(TypeOf(ToAbsl(content_type)), kType);
}

absl::StatusOr<std::string> MultipartBoundary(std::string_view content_type) {
  std::string boundary = HeaderParameter(ToAbsl(content_type), "boundary").value_or("");
  if (boundary.empty())
    return InvalidForm("the Content-Type of multipart/form-data has no boundary");
  if (boundary.size() > kMaxBoundaryBytes || boundary.ends_with(' ') ||
      !std::all_of(boundary.begin(), boundary.end(), IsBoundaryCharacter)) {
    return InvalidForm(absl::StrCat("the boundary of the multipart body is not one of 1 to ",
                                    kMaxBoundaryBytes,
                                    " characters of those that RFC 2046 allows"));
  }
  return boundary;
}

MultipartReader::MultipartReader(ByteSource& body, std::string_view boundary)
    : body_(body), delimiter_(absl::StrCat("\r\n--", ToAbsl(boundary))), buffer_(kBufferBytes) {
  // The first boundary may stand at the very beginning, where no line ends before it.
  buffer_[0] = '\r';
  buffer_[1] = '\n';
  end_ = 2;
}

absl::StatusOr<bool> MultipartReader::Fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  ASSIGN_OR_RETURN(const size_t count, body_.Read(std::span(buffer_).subspan(end_)));
  end_ += count;
  return count > 0;
}

absl::StatusOr<size_t> MultipartReader::Available() {
  while (own_ == 0) {
    const std::string_view bytes = unread();
    const size_t found = bytes.find(delimiter_);
    if (found == 0) return 0;
    if (found != std::string_view::npos) {
      own_ = found;
    } else if (bytes.size() >= delimiter_.size()) {
      own_ = bytes.size() - (delimiter_.size() - 1);  // it may begin in the last bytes
    } else {
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (!more) return EndsEarly();
    }
  }
  return own_;
}

absl::StatusOr<size_t> MultipartReader::Read(std::span<uint8_t> dst) {
  if (!in_part_) return 0;
  ASSIGN_OR_RETURN(const size_t available, Available());
  const size_t count = std::min(available, dst.size());
  if (count == 0) {
    LeavePart();
    return 0;
  }
  std::memcpy(dst.data(), buffer_.data() + begin_, count);
  Consume(count);
  return count;
}

absl::Status MultipartReader::SkipPart() {
  while (in_part_) {
    ASSIGN_OR_RETURN(const size_t available, Available());
    if (available == 0) LeavePart();
    Consume(available);
  }
  return absl::OkStatus();
}

void MultipartReader::Consume(size_t count) {
  begin_ += count;
  own_ -= count;
}

void MultipartReader::LeavePart() {
  in_part_ = false;
  begin_ += delimiter_.size();
}

absl::StatusOr<std::string> MultipartReader::ReadUntil(std::string_view text, size_t max_bytes) {
  while (true) {
    const std::string_view bytes = unread();
    const size_t length = std::min(bytes.find(text), bytes.size());
    if (length > max_bytes) {
      return InvalidForm(absl::StrCat("the header of a part of the multipart body has more than ",
                                      max_bytes, " bytes"));
    }
    if (length < bytes.size()) {
      std::string before(bytes.substr(0, length));
      begin_ += length + text.size();
      return before;
    }
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return EndsEarly();
  }
}

absl::StatusOr<bool> MultipartReader::ReadBoundaryEnd() {
  while (unread().size() < 2) {
    ASSIGN_OR_RETURN(const bool more, Fill());
    if (!more) return EndsEarly();
  }
  if (unread()[0] == '-' && unread()[1] == '-') return false;  // an epilogue is of no interest
  ASSIGN_OR_RETURN(const std::string padding, ReadUntil("\r\n", kMaxPaddingBytes));
  if (!absl::StripAsciiWhitespace(padding).empty()) {
    return InvalidForm("a boundary of the multipart body is followed by other text");
  }
  return true;
}

absl::StatusOr<std::optional<MultipartPart>> MultipartReader::Next() {
  if (ended_) return std::nullopt;
  RETURN_IF_ERROR(SkipPart());
  ASSIGN_OR_RETURN(const bool more, ReadBoundaryEnd());
  if (!more) {
    ended_ = true;
    return std::nullopt;
  }
  ASSIGN_OR_RETURN(const std::string header, ReadUntil("\r\n\r\n", kMaxPartHeaderBytes));
  in_part_ = true;
  absl::StatusOr<MultipartPart> part = ParsePart(header);
  if (!part.ok()) return part.status();
  return std::optional(*std::move(part));
}

}  // namespace upscaled::server
