// The rows of one source for several readers, each at its own pace.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"

namespace upscaled {

// Used by one thread at a time.
class SharedRows {
 public:
  // `source` must outlive it. No reader may get more than `window_rows` rows ahead of another.
  SharedRows(RowSource& source, int readers, int window_rows);
  ~SharedRows();

  // All rows of the source, from the first one. Lives as long as this object.
  RowSource& reader(int index);

  static size_t Bytes(const ImageSpec& source, int window_rows);

 private:
  class Reader;

  // Rows [y, y + count) where they lie side by side; `count` gets smaller where they do not.
  MutableImageView Held(int y, int& count);
  // Pulls rows of the source up to `end`.
  absl::Status PullTo(int end);

  RowSource& source_;
  Image held_;  // a ring of rows
  int pulled_rows_ = 0;
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace upscaled
