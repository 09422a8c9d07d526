// Writes ncnn models for the tests: the text of a .param and the bytes of a .bin.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace upscaled::test {

struct NcnnFiles {
  std::string layers;  // one line each
  int layer_count = 0;
  std::string bin;

  NcnnFiles& Line(const std::string& line) {
    absl::StrAppend(&layers, line, "\n");
    ++layer_count;
    return *this;
  }
  template <typename T>
  NcnnFiles& Values(const std::vector<T>& values) {
    bin.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    return *this;
  }
  NcnnFiles& Tag(uint32_t tag) { return Values(std::vector<uint32_t>{tag}); }
  NcnnFiles& Zeros(int count) { return Values(std::vector<float>(count, 0.0f)); }

  std::string param() const {
    return absl::StrCat("7767517\n", layer_count, " ", layer_count, "\n", layers);
  }
};

}  // namespace upscaled::test
