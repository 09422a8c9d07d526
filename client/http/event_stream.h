// Reading server-sent events.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace upscaled::client {

// Cuts text/event-stream, in pieces of any size, into events with data; comments and other fields
// are left out. Not thread safe.
class EventStream {
 public:
  static constexpr size_t kMaxLineBytes = size_t{64} << 10;  // of longer ones, the beginning

  using Listener = std::function<void(absl::string_view name, absl::string_view data)>;
  explicit EventStream(Listener listener) : listener_(std::move(listener)) {}

  void Feed(absl::string_view bytes);

 private:
  void OnLine(absl::string_view line);

  const Listener listener_;
  std::string line_;
  std::string name_;
  std::string data_;
};

}  // namespace upscaled::client
