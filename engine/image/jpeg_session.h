// The state for libjpeg's callbacks while it reads or writes one file.
//
// libjpeg leaves a call by way of our longjmp when it finds an error. It can land in RunGuarded
// only, and nothing with a destructor lives between: the guarded function captures plain pointers,
// and callbacks finish their C++ work before they raise an error.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

// jpeglib.h needs <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

#include "absl/status/status.h"

namespace upscaled {

class JpegSession {
 public:
  // `tolerant`: damaged data are no error, see damage().
  explicit JpegSession(bool tolerant = false);
  JpegSession(const JpegSession&) = delete;
  JpegSession& operator=(const JpegSession&) = delete;

  // For jpeg_decompress_struct::err and jpeg_compress_struct::err.
  jpeg_error_mgr* error_manager() { return &manager_; }
  // The session of a libjpeg object with error_manager() as its `err`.
  template <typename Info>
  static JpegSession& Of(Info* info) {
    return *static_cast<JpegSession*>(info->client_data);
  }

  // OK until an error; then the source's or sink's own, else INVALID_ARGUMENT with libjpeg's words.
  const absl::Status& status() const { return status_; }

  // libjpeg's words about the first damage passed over by a tolerant session; "" without damage.
  const std::string& damage() const { return damage_; }

  // Keeps the first error. A failed callback calls this, then Leave.
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  [[noreturn]] void Leave() { std::longjmp(jump_, 1); }

  // Calls `function`, and stops it at libjpeg's first error.
  template <typename Function>
  const absl::Status& RunGuarded(Function function) {
    static_assert(std::is_trivially_destructible_v<Function>);
    if (status_.ok() && setjmp(jump_) == 0) function();
    return status_;
  }

 private:
  static void OnError(j_common_ptr info);
  static void OnMessage(j_common_ptr info, int level);
  void FailWithMessage(j_common_ptr info);

  const bool tolerant_;
  std::string damage_;
  jpeg_error_mgr manager_;
  std::jmp_buf jump_;
  absl::Status status_;
};

}  // namespace upscaled
