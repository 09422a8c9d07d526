// The object that gRPC hands back through a completion queue at the end of an operation.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace upscaled::server {

// One type of operation of one call, at most one of it in flight. While it is in flight the tag
// owns a share of its call, so a call lives exactly as long as someone may still come back to it.
class CompletionTag {
 public:
  explicit CompletionTag(std::function<void(bool ok)> handler) : handler_(std::move(handler)) {}
  CompletionTag(const CompletionTag&) = delete;
  CompletionTag& operator=(const CompletionTag&) = delete;

  // The pointer to give to gRPC with an operation.
  void* Arm(std::shared_ptr<const void> owner) {
    owner_ = std::move(owner);
    return this;
  }
  // For an operation without a start.
  void Disarm() { owner_.reset(); }

  // Called by the completion queue's thread; `ok` as gRPC documents it for the operation.
  void Complete(bool ok) {
    const std::shared_ptr<const void> owner = std::move(owner_);
    handler_(ok);
  }

 private:
  const std::function<void(bool)> handler_;
  std::shared_ptr<const void> owner_;
};

}  // namespace upscaled::server
