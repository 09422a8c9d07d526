// Names of a file's parts that are left out, for a warning. Private to engine/image.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace upscaled {

// Holds each name once, in the order of the file. A file may have thousands of kinds: behind the
// first 16 it only says that there are more.
class LeftOut {
 public:
  // Bytes of `name` that are no printable ASCII become '?'.
  void Add(std::string_view name);
  bool empty() const { return names_.empty(); }
  // "tIME, abCd", or "a, b, ... and others".
  std::string Names() const;

 private:
  std::vector<std::string> names_;
  bool has_more_ = false;
};

}  // namespace upscaled
