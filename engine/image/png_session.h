// The state for libpng's callbacks while it reads one file.
//
// libpng leaves a call by longjmp when it finds an error. It can land in RunGuarded only, and
// nothing with a destructor lives between: the guarded function captures plain pointers, and
// callbacks finish their C++ work before they raise an error.
#pragma once

#include <csetjmp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <png.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace upscaled {

class PngSession {
 public:
  // OK until an error; then the source's own, else INVALID_ARGUMENT with libpng's words.
  const absl::Status& status() const { return status_; }

  // Keeps the first error. A failed callback calls this, then png_error.
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  // Calls `function`, and stops it at libpng's first error.
  template <typename Function>
  const absl::Status& RunGuarded(png_structp png, Function function) {
    static_assert(std::is_trivially_destructible_v<Function>);
    if (status_.ok() && setjmp(png_jmpbuf(png)) == 0) function();
    return status_;
  }

  static void OnError(png_structp png, png_const_charp message) {
    static_cast<PngSession*>(png_get_error_ptr(png))->FailWith(message);
    png_longjmp(png, 1);
  }
  // Warnings are about metadata left out by libpng, or about the end of the pixels.
  static void OnWarning(png_structp png, png_const_charp message) {
    constexpr size_t kMaxWarnings = 64;
    std::vector<std::string>& warnings =
        static_cast<PngSession*>(png_get_error_ptr(png))->warnings_;
    if (warnings.size() < kMaxWarnings) warnings.emplace_back(message);
  }
  // libpng's words.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void FailWith(png_const_charp message) {
    Fail(absl::InvalidArgumentError(absl::StrCat("PNG: ", message)));
  }

  absl::Status status_;
  std::vector<std::string> warnings_;
};

}  // namespace upscaled
