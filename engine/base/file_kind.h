// Kinds of files by their first bytes, for messages about files other than our images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace upscaled {

struct FileKind {
  enum class Type : uint8_t {
    kReadImage,   // an image of a format that servers read, unharmed
    kOtherImage,  // an image of another format
    kOther,       // text, an archive, an image that was changed on the way
  };

  std::string_view name;    // as it goes behind "this is": "HEIC", "an HTML page"
  std::string_view advice;  // how to send it as an image; "": no more than to send an image
  Type type = Type::kOther;
};

// Bytes from the beginning of a file for RecognizeFileKind.
inline constexpr size_t kFileKindBytes = 256;

// nullopt for a beginning of no known kind.
std::optional<FileKind> RecognizeFileKind(std::span<const uint8_t> beginning);

}  // namespace upscaled
